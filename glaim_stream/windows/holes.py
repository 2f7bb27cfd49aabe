"""Selects the cells of a step that get a row when it closes, and those of them that are imputed.

Each sensor is due once in every interval of its cadence, which for most sensors is one step. An interval without a
reading is a hole at its last step. A slow sensor's other steps without a reading yield no row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import FINAL, PROVISIONAL
from glaim_stream.health import Plausibility
from glaim_stream.windows.cadence import SlowSensors
from glaim_stream.windows.rings import Rings

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]

ROWS_AT_A_TIME = 32  # 200 kB of values for 8 sensors and 96 steps: a part stays in the cache of a core


@dataclass(frozen=True, slots=True)
class Rules:
    """The window rules of one model that decide what a closed step yields."""

    window: int
    revise_after: int
    max_gap: int
    step_ms: int
    model_index: int
    plausibility: Plausibility | None = None  # judges readings; None: all are believed
    clock_kept: bool = False  # commits record what the wall clock has published, so a rebuild repeats it


@dataclass(frozen=True, slots=True)
class LookBack:
    """The observations of the window that ends with a step: R rows of the rings, C sensors."""

    step: int
    observed: Bools  # [R, C, window], oldest step first
    age: Ints  # [R, C] steps since the sensor's last observation, `window` where there is none
    group_age: Ints  # [R] steps since the last observation of any sensor of the group

    @property
    def newest_first(self) -> Bools:
        """`observed` with the newest step first, bool [R, C, window]."""
        return self.observed[:, :, ::-1]


@dataclass(frozen=True, slots=True)
class StepRows:
    """The cells of one step that get a row, all provisional or all final."""

    row: Ints  # [n] row of the rings
    sensor: Ints  # [n]
    observed: Bools  # [n]
    gap_age: Ints  # [n]
    fill: Bools  # [n] imputed from the window
    final: Bools  # [n]
    lag: int  # steps before the one that closes
    revision: int

    def where(self, keep: Bools) -> StepRows:
        """The chosen cells."""
        return StepRows(
            self.row[keep],
            self.sensor[keep],
            self.observed[keep],
            self.gap_age[keep],
            self.fill[keep],
            self.final[keep],
            self.lag,
            self.revision,
        )


def look_back(rings: Rings, rules: Rules, step: int) -> LookBack:
    """Look back from `step`. Steps that the rings have no room for yet count as not observed."""
    observed = rings.past(rings.observed, slice(len(rings.groups)), step)
    if step > rings.newest_step:
        observed[:, :, rules.window - (step - rings.newest_step) :] = False
    age = np.zeros(observed.shape[:2], np.int64)
    hole = np.nonzero(~observed[:, :, -1])  # few cells, and only these need the search
    age[hole] = _gap_age(observed[hole][:, ::-1])
    return LookBack(step, observed, age, age.min(axis=1, initial=rules.window))


def in_parts(rows: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield rows in parts whose windows fit the processor's memory, each with the number of rows before it."""
    for start in range(0, len(rows), ROWS_AT_A_TIME):
        yield start, rows[start : start + ROWS_AT_A_TIME]


def values_of(rings: Rings, lookback: LookBack, rows: Ints, out: Doubles | None = None) -> Doubles:
    """The values of some rows' windows, 0 where nothing was observed; written to `out` if given."""
    values: Doubles = rings.past(rings.values, rows, lookback.step, out=out)
    if lookback.step > rings.newest_step:  # the slots of later steps still hold older ones
        np.copyto(values, 0, where=~lookback.observed[rows])
    return values


def provisional_rows(lookback: LookBack, rules: Rules, slow: SlowSensors | None, *, by_clock: bool) -> StepRows:
    """Rows of every cell of the step, except those of dark groups and of sensors that are not due.

    Observed cells are final. Holes that no later observation will change are final too (those that are not filled,
    and all of them if `revise_after` is 0), unless the wall clock closes the step.
    """
    awake = np.flatnonzero(lookback.group_age <= rules.max_gap)
    age = lookback.age[awake] if len(awake) < len(lookback.age) else lookback.age
    observed = age == 0
    fill = ~observed & (age <= rules.max_gap)
    sensors = age.shape[1]
    rows = StepRows(
        np.repeat(awake, sensors),
        np.tile(np.arange(sensors), len(awake)),
        observed.ravel(),
        age.ravel(),
        fill.ravel(),
        (observed | (not by_clock and (~fill | (rules.revise_after == 0)))).ravel(),
        0,
        PROVISIONAL,
    )
    if slow is not None:
        rows = rows.where(rows.observed | slow.holes(lookback.step, rows.row, rows.sensor, rows.gap_age))
    return rows


def settled_rows(lookback: LookBack, rules: Rules, slow: SlowSensors | None) -> StepRows:
    """Rows of a step that the wall clock has published, for holes that event time makes final without a revision.

    They carry the revision FINAL, or PROVISIONAL where commits do not record the clock: a worker without the wall
    clock publishes the same rows there, as its first ones.
    """
    rows = provisional_rows(lookback, rules, slow, by_clock=False)
    settled = rows.where(rows.final & ~rows.observed)
    return replace(settled, revision=FINAL) if rules.clock_kept else settled


def final_rows(lookback: LookBack, rules: Rules, slow: SlowSensors | None) -> StepRows:
    """Final rows of the filled holes `revise_after` steps before the one that closes."""
    newest_first = lookback.newest_first[:, :, rules.revise_after :]  # backwards from the step of the holes
    row, sensor = np.nonzero(~newest_first[:, :, 0])
    age = _gap_age(newest_first[row, sensor])
    due = age <= rules.max_gap
    if slow is not None:
        due &= slow.holes(lookback.step - rules.revise_after, row, sensor, age)
    row, sensor, age = row[due], sensor[due], age[due]
    every = np.ones(len(row), np.bool_)
    return StepRows(row, sensor, ~every, age, every, every, rules.revise_after, FINAL)


def _gap_age(newest_first: Bools) -> Ints:
    """Steps since the last observation, int64 [n], of cells [n, T] not observed at their newest step; T if never."""
    age: Ints = newest_first.argmax(axis=1)  # stops at the first True; 0 where there is none
    age[age == 0] = newest_first.shape[1]
    return age
