"""Attributes a published value to sensors, from the window that the worker still holds.

The window is the current one. It includes readings that arrived after the value was made, and lacks steps that have
left it since. If this changes the value, the difference is one of its parts, so that the parts always add up.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from glaim_stream.core.errors import GlaimError
from glaim_stream.core.vocabulary import METHODS, Method
from glaim_stream.operate.explain import Estimate, Explained, Means, Row, explain_published
from glaim_stream.output import SensorTable, SensorTables
from glaim_stream.page.sources import Sources
from glaim_stream.page.watched import Kind, WatchedGroup
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows import past_windows

_MOST_READINGS = 5


def carried(sources: Sources, rows: WatchedGroup, sensor: int, ts_ms: int, kind: Kind) -> dict[str, Any]:
    """Explain a filled value as a JSON document.

    Args:
        sources: sources of the worker.
        rows: published rows of the value's group.
        sensor: index of the value's sensor.
        ts_ms: start of the value's step.
        kind: kind of the value, PROVISIONAL or FINAL.

    Raises:
        GlaimError: the cell has no filled value, or its value cannot be explained.
        LoopBusy: the event loop does not answer.
    """
    fields = rows.row(sensor, ts_ms, kind)
    if fields is None or fields[3] is None or kind not in (Kind.PROVISIONAL, Kind.FINAL):
        raise GlaimError("expected a filled value, found none at this step")
    _, _, _, value, lower, upper, method, revision, gap_age, version = fields
    found = sources.in_loop(_window(sources, rows.name, sensor, ts_ms, kind, revision, gap_age))
    if found is None:
        raise GlaimError("the worker no longer holds the window of this value; `glaim-stream explain` makes it again")
    window, model, gone = found
    form = sources.form_of(sources.pipeline.catalogue.models[model].name)
    means = Means(form, None, "", _table(sources.pipeline, model))
    row = Row(value, Method(METHODS.index(method)), revision, gap_age, version, lower, upper)
    explained = explain_published(row, window, sensor, means)
    return _document(explained, sources.pipeline.catalogue.models[model].sensor_ids, gone)


async def _window(
    sources: Sources, group: str, sensor: int, ts_ms: int, kind: Kind, revision: int, gap_age: int
) -> tuple[Estimate, int, int] | None:
    """The window of a value, the index of its model, and the number of lost steps. Runs in the event loop."""
    found = sources.windows_of(group)
    if found is None or found[2].rings.closable is None:
        return None
    _, _, windows, row = found
    rings, rules = windows.rings, windows.rules
    lag = 0 if kind is Kind.PROVISIONAL else rules.revise_after
    end = ts_ms // rules.step_ms + lag
    closable = rings.closable or 0
    gone = max(0, closable - 1 - end)
    if end >= closable or gone >= rules.window - lag:
        return None
    values, observed = past_windows(rings, rules, np.array([end]), np.array([row]))
    place = rules.window - 1 - lag
    observed[0, sensor, place] = False  # a late reading may have arrived since
    values[0, sensor, place] = 0.0
    newest, end_ms = rules.revise_after + 1, end * rules.step_ms
    estimate = Estimate(revision, float("nan"), gap_age, place, newest, end_ms, values[0], observed[0])
    return estimate, windows.model_index, gone


@lru_cache(maxsize=4)
def _tables(pipeline: Pipeline) -> SensorTables:
    return SensorTables(pipeline.catalogue, pipeline.contracts)


def _table(pipeline: Pipeline, model: int) -> SensorTable:
    return _tables(pipeline)[model]


def _document(explained: Explained, sensors: list[str], gone: int) -> dict[str, Any]:
    parts, window = explained.parts, explained.window
    assert window.observed is not None
    notes = list(explained.notes)
    if gone:
        notes.append(f"{gone} of the window's oldest steps are no longer held")
    of_sensor = parts.contributions.sum(axis=1)
    order = np.argsort(-np.abs(of_sensor), kind="stable")
    return {
        "value": parts.value,
        "method": METHODS[explained.row.method],
        "sensors": [
            {
                "id": sensors[at],
                "contribution": float(of_sensor[at]),
                "readings": int(window.observed[at].sum()),
                "steps": [
                    {"back": int(window.step - step), "contribution": float(parts.contributions[at, step])}
                    for step in np.argsort(-np.abs(parts.contributions[at]), kind="stable")[:_MOST_READINGS].tolist()
                    if parts.contributions[at, step]
                ],
            }
            for at in order.tolist()
            if of_sensor[at] or parts.contributions[at].any()
        ],
        "parts": [{"name": part.name, "value": part.value} for part in parts.parts],
        "notes": notes,
    }
