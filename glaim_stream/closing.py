"""What a closed step yields: one row a sensor, and the windows from which the holes among them are imputed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from glaim_stream.rings import Cells, Rings

NO_WINDOW = -1

# 2 is an upgrade: a final that a lower rung had made, made again by a better one; no window knows of it.
# Revisions say what made a row, not how many came before it: so they too follow from the topic alone, and a worker
# that rebuilt its windows numbers its rows as the one before it would have.
PROVISIONAL, FINAL, FIRST_CORRECTION = 0, 1, 3
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ClosingRules:
    """The window rules of one model that decide what a closed step yields."""

    window: int
    revise_after: int
    max_gap: int
    step_ms: int
    model_index: int


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


def close_step(rings: Rings, rules: ClosingRules, step: int, *, provisional: bool, final: bool) -> Closed | None:
    """Rows of one step as it closes; None when there is nothing to publish.

    Args:
        rings: state of the model's groups.
        rules: the model's window rules.
        step: the step that closes.
        provisional: publish this step: what was observed, and a first estimate of each hole. False when the wall
            clock has published it already.
        final: event time closes the step: publish the last word on the holes of the step `revise_after` steps
            earlier. False when the wall clock closes it, which has the last word on no hole.
    """
    slots = rings.slots(np.arange(step - rules.window + 1, step + 1))
    recent = rings.observed[: len(rings.groups)].take(slots[::-1], axis=2)  # [R, C, window], newest first
    seen = (_gap_age(recent) < rules.window).any(axis=1)
    alive = np.flatnonzero(seen)  # a group that is dark for a whole window yields nothing
    recent = recent[alive]
    parts: list[_Part] = []
    if provisional:
        parts.append(_provisional(recent, rules, last_word=final))
    elif final:
        parts.append(_settled(recent, rules))
    if final and rules.revise_after:
        parts.append(_final(recent, rules))
    if not parts or len(alive) == 0:
        return None
    wanted = np.zeros(len(alive), np.bool_)
    for part in parts:
        wanted[part.row[part.fill]] = True
    window_of = np.where(wanted, np.cumsum(wanted) - 1, NO_WINDOW)
    window_observed = recent[wanted][:, :, ::-1]
    window_values = np.where(window_observed, rings.values[alive[wanted]].take(slots, axis=2), np.float32(0))
    return _join(
        [_rows(part, rings, rules, step, alive, window_of) for part in parts],
        rules,
        window_values,
        window_observed,
    )


def correct(rings: Rings, rules: ClosingRules, cells: Cells) -> Closed | None:
    """Rows for readings that came after their step was published; None when there are none.

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
    revision = rings.correct(cells) + np.int16(FIRST_CORRECTION - 1)
    place = (cells.row, cells.sensor, rings.slots(cells.step))
    window = np.empty((0, rings.sensors, rules.window))
    return Closed(
        rules.model_index,
        np.array(rings.groups, np.int32)[cells.row],
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


@dataclass(frozen=True, slots=True)
class _Part:
    """Cells of one step of the groups that are alive: provisional ones or final ones."""

    row: NDArray[np.int64]  # [n] index into the groups alive
    sensor: NDArray[np.int64]  # [n]
    observed: Bools  # [n]
    gap_age: NDArray[np.int64]  # [n]
    fill: Bools  # [n] imputed from the window
    final: Bools  # [n]
    lag: int
    revision: int

    def where(self, keep: Bools, revision: int) -> _Part:
        """The chosen cells, under another revision."""
        return _Part(
            self.row[keep],
            self.sensor[keep],
            self.observed[keep],
            self.gap_age[keep],
            self.fill[keep],
            self.final[keep],
            self.lag,
            revision,
        )


def _provisional(recent: Bools, rules: ClosingRules, *, last_word: bool) -> _Part:
    observed = recent[:, :, 0]
    gap_age = _gap_age(recent)
    fill = ~observed & (gap_age <= rules.max_gap)
    row, sensor = np.indices(observed.shape)
    final = observed | (last_word & (~fill | (rules.revise_after == 0)))
    return _Part(
        row.ravel(), sensor.ravel(), observed.ravel(), gap_age.ravel(), fill.ravel(), final.ravel(), 0, PROVISIONAL
    )


def _settled(recent: Bools, rules: ClosingRules) -> _Part:
    """The last word on those holes of a step, published by the clock, that no right context will change."""
    part = _provisional(recent, rules, last_word=True)
    return part.where(part.final & ~part.observed, FINAL)


def _final(recent: Bools, rules: ClosingRules) -> _Part:
    until = recent[:, :, rules.revise_after :]  # the step itself and what came before it
    gap_age = _gap_age(until)
    row, sensor = np.nonzero(~until[:, :, 0] & (gap_age <= rules.max_gap))
    every = np.ones(len(row), np.bool_)
    return _Part(row, sensor, ~every, gap_age[row, sensor], every, every, rules.revise_after, FINAL)


def _gap_age(recent: Bools) -> NDArray[np.int64]:
    """Steps since the last observation, int64 [R, C], of steps newest first; their number where there is none."""
    age: NDArray[np.int64] = recent.argmax(axis=-1)  # stops at the first True, and says 0 where there is none
    none = (age == 0) & ~recent[:, :, 0]
    age[none] = recent.shape[-1]
    return age


def _rows(
    part: _Part,
    rings: Rings,
    rules: ClosingRules,
    step: int,
    alive: NDArray[np.int64],
    window_of: NDArray[np.int64],
) -> dict[str, NDArray[np.generic]]:
    step -= part.lag
    slot = step % rings.length
    row = alive[part.row]
    place = (row, part.sensor, slot)
    return {
        "group": np.array(rings.groups, np.int32)[row],
        "sensor": part.sensor.astype(np.int32),
        "ts_ms": np.full(len(row), step * rules.step_ms, np.int64),
        "stamp_ms": step * rules.step_ms + np.where(part.observed, rings.stamp[place], np.int64(0)),
        "value": np.where(part.observed, rings.values[place], np.float32(np.nan)),
        "observed": part.observed,
        "mark": rings.mark[place],
        "gap_age": part.gap_age.astype(np.int32),
        "revision": np.full(len(row), part.revision, np.int16),
        "final": part.final,
        "window": np.where(part.fill, window_of[part.row], NO_WINDOW).astype(np.int32),
        "lag": np.full(len(row), part.lag, np.int32),
    }


def _join(
    rows: Sequence[dict[str, NDArray[np.generic]]],
    rules: ClosingRules,
    window_values: NDArray[np.float32],
    window_observed: Bools,
) -> Closed:
    columns = {name: np.concatenate([part[name] for part in rows]) for name in rows[0]}
    return Closed(
        model_index=rules.model_index, window_values=window_values, window_observed=window_observed, **columns
    )
