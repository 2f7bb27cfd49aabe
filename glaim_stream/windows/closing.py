"""What a closed step yields: one row a sensor, and the windows from which the holes among them are imputed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from glaim_stream.vocabulary import FIRST_CORRECTION, PROVISIONAL
from glaim_stream.windows.cadence import SlowSensors
from glaim_stream.windows.holes import (
    Bools,
    Ints,
    Look,
    Part,
    Rules,
    final,
    provisional,
    settled,
)
from glaim_stream.windows.rings import Cells, Rings

NO_WINDOW = -1


@dataclass(frozen=True, slots=True)
class Closed:
    """Rows of closed steps of one model, and the windows to impute. n rows, w windows, C sensors.

    A hole to be filled points at its window; its value is the imputer's answer for `sensor`, `lag` steps before the
    window's newest one. A hole whose gap is older than `max_gap` points at none and stays null.
    """

    model_index: int
    group: NDArray[np.int32]  # [n] group codes
    sensor: NDArray[np.int32]  # [n]
    ts_ms: NDArray[np.int64]  # [n] start of the step
    stamp_ms: NDArray[np.int64]  # [n] time of the reading that stands for the step; its start where there is none
    value: NDArray[np.float32]  # [n] NaN where nothing was observed
    observed: Bools  # [n]
    mark: NDArray[np.int8]  # [n] that reading's quality; without one 2 where a reading said that it held no value, or 0
    gap_age: NDArray[np.int32]  # [n] steps since the sensor's last observation, 0 when observed
    revision: NDArray[np.int16]  # [n] PROVISIONAL, FINAL, or from FIRST_CORRECTION on
    final: Bools  # [n]
    window: NDArray[np.int32]  # [n] index into the windows, or NO_WINDOW
    lag: NDArray[np.int32]  # [n]
    window_values: NDArray[np.float32]  # [w, C, window], 0 where nothing was observed
    window_observed: Bools  # [w, C, window]

    def __len__(self) -> int:
        return len(self.group)


def close_step(
    rings: Rings, rules: Rules, look: Look, slow: SlowSensors | None = None, *, published: bool, by_clock: bool
) -> Closed | None:
    """Rows of one step as it closes; None when there is nothing to publish.

    Args:
        rings: state of the model's groups.
        rules: the model's window rules.
        look: back from the step that closes.
        slow: the model's cadences, None when all sensors are due at each step; learns of the holes published.
        published: the wall clock has published this step already: a first estimate of each hole is out.
        by_clock: the wall clock closes the step, which has the last word on no hole. Event time, when it does, has:
            on the holes of the step `revise_after` steps earlier.
    """
    parts: list[Part] = []
    if not published:
        parts.append(provisional(look, rules, slow, last_word=not by_clock))
    elif not by_clock:
        parts.append(settled(look, rules, slow))
    if not by_clock and rules.revise_after:
        parts.append(final(look, rules, slow))
    if slow is not None:
        for part in parts[:1]:
            waiting = ~part.final
            slow.ask(look.step, part.row[waiting], part.sensor[waiting])
        if not by_clock:
            slow.settle(look.step - rules.revise_after)
    if not any(len(part.row) for part in parts):
        return None
    wanted = np.zeros(len(look.age), np.bool_)
    for part in parts:
        wanted[part.row[part.fill]] = True
    window_of = np.where(wanted, np.cumsum(wanted) - 1, NO_WINDOW)
    window_observed = look.past[wanted]
    window_values = rings.past(rings.values, np.flatnonzero(wanted), look.step)  # 0 where nothing was observed
    if look.step > rings.newest_step:  # beyond these steps the rings hold what has left them
        np.copyto(window_values, 0, where=~window_observed)
    rows = [_rows(part, rings, rules, look.step - part.lag, window_of) for part in parts]
    columns = {name: np.concatenate([part[name] for part in rows]) for name in rows[0]}
    return Closed(
        model_index=rules.model_index, window_values=window_values, window_observed=window_observed, **columns
    )


def correct(rings: Rings, rules: Rules, cells: Cells) -> Closed | None:
    """Rows for readings that came after their step was published; None when there are none.

    What changes a step that event time has closed is a correction. A step that only the wall clock has published is
    still open: its cell is published anew, as the first row that it is, and by whom the topic is read again without
    that clock the same row is published as the step closes.

    Args:
        rings: state of the model's groups; their counts of corrections move on.
        rules: the model's window rules.
        cells: what the readings changed, in order of arrival, none of them twice.

    Returns:
        One observed, final row a cell.
    """
    count = len(cells.row)
    if count == 0:
        return None
    closed = cells.step < (rings.closable or 0)
    revision = np.full(count, PROVISIONAL, np.int16)
    revision[closed] = rings.correct(cells.where(closed)) + np.int16(FIRST_CORRECTION - 1)
    place = (cells.row, cells.sensor, rings.slots(cells.step))
    window = np.empty((0, rings.sensors, rules.window))
    return Closed(
        rules.model_index,
        rings.codes[cells.row],
        cells.sensor.astype(np.int32),
        cells.step * rules.step_ms,
        cells.step * rules.step_ms + rings.stamp[place],
        rings.values[place],
        np.ones(count, np.bool_),
        rings.mark[place],
        np.zeros(count, np.int32),
        revision,
        np.ones(count, np.bool_),
        np.full(count, NO_WINDOW, np.int32),
        np.zeros(count, np.int32),
        window.astype(np.float32),
        window.astype(np.bool_),
    )


def concatenate(steps: Sequence[Closed | None]) -> Closed | None:
    """Several steps of one model as one, in their order; None when they hold no row."""
    parts = [part for part in steps if part is not None and len(part)]
    if len(parts) <= 1:
        return parts[0] if parts else None
    starts = np.cumsum([0, *(len(part.window_values) for part in parts[:-1])])
    columns = {
        column.name: np.concatenate([getattr(part, column.name) for part in parts])
        for column in fields(Closed)
        if column.name not in ("model_index", "window")
    }
    window = np.concatenate(
        [
            np.where(part.window == NO_WINDOW, NO_WINDOW, part.window + start)
            for part, start in zip(parts, starts, strict=True)
        ]
    ).astype(np.int32)
    return Closed(model_index=parts[0].model_index, window=window, **columns)


def _rows(part: Part, rings: Rings, rules: Rules, step: int, window_of: Ints) -> dict[str, NDArray[np.generic]]:
    place = rings.cell_codes(part.row, part.sensor, step)
    count = len(part.row)
    marked = rings.marked and step <= rings.newest_step
    return {
        "group": rings.codes[part.row],
        "sensor": part.sensor.astype(np.int32),
        "ts_ms": np.full(count, step * rules.step_ms, np.int64),
        "stamp_ms": step * rules.step_ms + np.where(part.observed, rings.stamp.reshape(-1)[place], np.int64(0)),
        "value": np.where(part.observed, rings.values.reshape(-1)[place], np.float32(np.nan)),
        "observed": part.observed,
        "mark": rings.mark.reshape(-1)[place] if marked else np.zeros(count, np.int8),
        "gap_age": part.gap_age.astype(np.int32),
        "revision": np.full(count, part.revision, np.int16),
        "final": part.final,
        "window": np.where(part.fill, window_of[part.row], NO_WINDOW).astype(np.int32),
        "lag": np.full(count, part.lag, np.int32),
    }
