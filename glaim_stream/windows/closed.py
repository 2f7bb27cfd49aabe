"""The rows of a closed step, one per sensor, and the windows from which its holes are imputed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import FIRST_CORRECTION, PROVISIONAL
from glaim_stream.windows.cadence import SlowSensors
from glaim_stream.windows.holes import (
    Bools,
    Ints,
    LookBack,
    Rules,
    StepRows,
    final_rows,
    in_parts,
    provisional_rows,
    settled_rows,
    values_of,
)
from glaim_stream.windows.rings import ReadingCells, Rings
from glaim_stream.windows.room import Room, Windows

NO_WINDOW = -1


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Closed:
    """Rows of closed steps of one model, and the windows to impute. n rows, w windows, C sensors.

    A hole to be filled refers to its window; its value is what the imputer returns for `sensor`, `lag` steps before the
    window's newest step. A hole whose gap is older than `max_gap` refers to no window and stays null.
    """

    model_index: int
    group: NDArray[np.int32]  # [n] group codes
    sensor: NDArray[np.int32]  # [n]
    ts_ms: NDArray[np.int64]  # [n] start of the step
    stamp_ms: NDArray[np.int64]  # [n] event time of the reading that the step holds, else start of the step
    value: NDArray[np.float64]  # [n] NaN where nothing was observed
    observed: Bools  # [n]
    quality: NDArray[np.int8]  # [n] the reading's quality; without one: BAD if the sensor reported no value, else GOOD
    doubted: Bools  # [n] the reading stands apart from its window
    gap_age: NDArray[np.int32]  # [n] steps since the sensor's last observation, 0 when observed
    revision: NDArray[np.int16]  # [n] PROVISIONAL, FINAL, or from FIRST_CORRECTION on
    final: Bools  # [n]
    window: NDArray[np.int32]  # [n] index into the windows, or NO_WINDOW
    lag: NDArray[np.int32]  # [n]
    window_values: NDArray[np.float64]  # [w, C, window], 0 where nothing was observed
    window_observed: Bools  # [w, C, window], False where a reading is doubted

    def __len__(self) -> int:
        return len(self.group)

    @property
    def size_bytes(self) -> int:
        """Memory of the columns and windows."""
        return sum(getattr(self, column.name).nbytes for column in fields(self) if column.name != "model_index")

    def group_codes(self) -> list[NDArray[np.int32]]:
        """Codes of the groups of its rows."""
        return [self.group]

    def hole_steps(self, step_ms: int) -> tuple[Ints, Ints]:
        """Rows of the holes to be filled, and the newest step of each one's window, each int64 [h]."""
        holes = np.flatnonzero(self.window != NO_WINDOW)
        return holes, self.ts_ms[holes] // step_ms + self.lag[holes]

    def window_ends_ms(self, step_ms: int) -> Ints:
        """Start of the newest step of each window, int64 [w]."""
        holes, step = self.hole_steps(step_ms)
        ends_ms = np.zeros(len(self.window_values), np.int64)
        ends_ms[self.window[holes]] = step * step_ms
        return ends_ms


def close_step(
    rings: Rings,
    rules: Rules,
    lookback: LookBack,
    slow: SlowSensors | None = None,
    room: Room | None = None,
    *,
    published: bool,
    by_clock: bool,
) -> Closed | None:
    """Make the rows of one step as it closes, none of them doubted yet; None when there is nothing to publish.

    Args:
        rings: state of the model's groups.
        rules: the model's window rules.
        lookback: observations up to the step that closes.
        slow: the model's cadences, updated with the holes published; None when all sensors are due at each step.
        room: memory for the windows; None: they get memory of their own.
        published: the wall clock has published this step already, with a first estimate of each hole.
        by_clock: the wall clock closes the step, so none of its holes is final. When event time closes it, the holes
            of the step `revise_after` steps earlier become final.
    """
    parts: list[StepRows] = []
    if not published:
        parts.append(provisional_rows(lookback, rules, slow, by_clock=by_clock))
    elif not by_clock:
        parts.append(settled_rows(lookback, rules, slow))
    if not by_clock and rules.revise_after:
        parts.append(final_rows(lookback, rules, slow))
    if slow is not None:
        for part in parts[:1]:
            waiting = ~part.final
            slow.published(lookback.step, part.row[waiting], part.sensor[waiting])
        if not by_clock:
            slow.finalised(lookback.step - rules.revise_after)
    if not any(len(part.row) for part in parts):
        return None
    wanted = np.zeros(len(lookback.age), np.bool_)
    for part in parts:
        wanted[part.row[part.fill]] = True
    window_of = np.where(wanted, np.cumsum(wanted) - 1, NO_WINDOW)
    windows = _windows(rings, lookback, wanted, room or Room(rings.sensors, rules.window))
    return _closed(parts, rings, rules, lookback.step, window_of, windows)


def _windows(rings: Rings, lookback: LookBack, wanted: Bools, room: Room) -> Windows:
    """Put the windows of the wanted rows into the room, and return them."""
    values, observed = room.add(int(wanted.sum()))
    np.compress(wanted, lookback.observed, axis=0, out=observed)
    for start, rows in in_parts(np.flatnonzero(wanted)):
        values_of(rings, lookback, rows, out=values[start : start + len(rows)])
    return values, observed


def correct(rings: Rings, rules: Rules, cells: ReadingCells) -> Closed | None:
    """Make rows for readings that arrived after their step was published; None when there are none.

    A change to a step that event time has closed is a correction. A step that only the wall clock has published is
    still open. Where commits record the clock (Rules.clock_kept) its change is a correction too. Elsewhere its cell is
    published again under the revision PROVISIONAL, because a worker that reads the topic without the wall clock
    publishes the same row when the step closes.

    Args:
        rings: state of the model's groups; their counts of corrections are increased.
        rules: the model's window rules.
        cells: the cells that the readings changed, in order of arrival, none of them twice.

    Returns:
        One observed, final row per cell.
    """
    count = len(cells.row)
    if count == 0:
        return None
    closed = (cells.step < (rings.closable or 0)) | rules.clock_kept
    revision = np.full(count, PROVISIONAL, np.int16)
    revision[closed] = rings.correct(cells.where(closed)) + np.int16(FIRST_CORRECTION - 1)
    place = (cells.row, cells.sensor, rings.slots(cells.step))
    no_windows = np.empty((0, rings.sensors, rules.window))
    return Closed(
        rules.model_index,
        rings.codes[cells.row],
        cells.sensor.astype(np.int32),
        cells.step * rules.step_ms,
        cells.step * rules.step_ms + rings.stamp_ms[place],
        rings.values[place],
        np.ones(count, np.bool_),
        rings.quality[place],
        np.zeros(count, np.bool_),  # these readings are judged in the windows of later steps
        np.zeros(count, np.int32),
        revision,
        np.ones(count, np.bool_),
        np.full(count, NO_WINDOW, np.int32),
        np.zeros(count, np.int32),
        no_windows,
        no_windows.astype(np.bool_),
    )


def concatenate(steps: Sequence[Closed | None], windows: Windows | None = None) -> Closed | None:
    """Join several steps of one model in their order; None when they hold no row.

    Args:
        steps: steps to join.
        windows: windows of all the steps, if they lie together already.
    """
    parts = [part for part in steps if part is not None and len(part)]
    if len(parts) <= 1:
        return parts[0] if parts else None
    starts = np.cumsum([0, *(len(part.window_values) for part in parts[:-1])])
    together: dict[str, NDArray[Any]] = {}
    if windows is not None:
        together["window_values"], together["window_observed"] = windows
    columns = together | {
        column.name: np.concatenate([getattr(part, column.name) for part in parts])
        for column in fields(Closed)
        if column.name not in ("model_index", "window", *together)
    }
    window = np.concatenate(
        [
            np.where(part.window == NO_WINDOW, NO_WINDOW, part.window + start)
            for part, start in zip(parts, starts, strict=True)
        ]
    ).astype(np.int32)
    return Closed(model_index=parts[0].model_index, window=window, **columns)


def _closed(
    parts: Sequence[StepRows],
    rings: Rings,
    rules: Rules,
    closing: int,
    window_of: Ints,
    windows: Windows,
) -> Closed:
    """Make the rows of the parts, in their order: rows of the closing step and of one before it."""

    def joined(columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(list(columns))

    counts = [len(part.row) for part in parts]
    lag = np.repeat(np.array([part.lag for part in parts], np.int32), counts)
    step = closing - lag.astype(np.int64)
    row, sensor = joined(part.row for part in parts), joined(part.sensor for part in parts)
    observed, fill = joined(part.observed for part in parts), joined(part.fill for part in parts)
    place = rings.cell_codes(row, sensor, step)
    quality = np.zeros(len(row), np.int8)
    if rings.flagged:
        quality = np.where(step <= rings.newest_step, rings.quality.reshape(-1)[place], quality)
    return Closed(
        model_index=rules.model_index,
        group=rings.codes[row],
        sensor=sensor.astype(np.int32),
        ts_ms=step * rules.step_ms,
        stamp_ms=step * rules.step_ms + np.where(observed, rings.stamp_ms.reshape(-1)[place], np.int64(0)),
        value=np.where(observed, rings.values.reshape(-1)[place], np.nan),
        observed=observed,
        quality=quality,
        doubted=np.zeros(len(row), np.bool_),
        gap_age=joined(part.gap_age for part in parts).astype(np.int32),
        revision=np.repeat(np.array([part.revision for part in parts], np.int16), counts),
        final=joined(part.final for part in parts),
        window=np.where(fill, window_of[row], NO_WINDOW).astype(np.int32),
        lag=lag,
        window_values=windows[0],
        window_observed=windows[1],
    )
