"""Runs of equal readings, and silences: their lengths, and the groups of them that began together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.health.series import NEVER, GridSeries, before, last_reading, sliding_count

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LONGEST = 384  # steps; longer runs and silences count as this long
MOST_RESTING = 8  # values at which a sensor may rest
_RESTING_RUN = 8  # readings; a value repeated this often in the learned readings is a resting value
_TOGETHER = 2  # steps between two beginnings that count as one


@dataclass(frozen=True)
class Runs:
    """Runs of equal readings, seen from each step.

    length: int64 [C, N], readings of the last reading's run within the last LONGEST steps.
    start: int64 [C, N], index of its first step, at most LONGEST - 1 before.
    value: float64 [C, N], the repeated value; NaN before the first reading.
    """

    length: Ints
    start: Ints
    value: Doubles


def runs_of(series: GridSeries) -> Runs:
    """Return the runs of a series' readings."""
    values, observed = series.values, series.observed
    last = last_reading(observed)
    previous = before(last, observed)
    same = (previous != NEVER) & (_at(values, previous) == values)
    starts = np.where(observed & ~same, np.arange(series.steps), 0)
    start = np.maximum.accumulate(starts, axis=1)
    start = np.maximum(start, np.arange(series.steps) - LONGEST + 1)
    total = np.cumsum(observed, axis=1, dtype=np.int64)
    # A run begins at a reading, or is cut at the oldest step that counts.
    at_start = np.take_along_axis(total - observed, np.maximum(start, 0), axis=1)
    length: Ints = np.where(last == NEVER, 0, total - at_start)
    return Runs(length, np.maximum(start, 0), np.where(last == NEVER, np.nan, _at(values, last)))


def silence(series: GridSeries) -> Ints:
    """Return the steps since each sensor's last reading, int64 [C, N], at most LONGEST."""
    age: Ints = np.minimum(np.arange(series.steps) - last_reading(series.observed), LONGEST)
    return age


def gaps_begun(series: GridSeries, steps: int) -> Ints:
    """Return the number of gaps that began within the last `steps` steps, int64 [C, N]."""
    begun = np.zeros(series.observed.shape, np.bool_)
    begun[:, 1:] = ~series.observed[:, 1:] & series.observed[:, :-1]
    return sliding_count(begun, steps)


def resting_values(values: Doubles, runs: Runs) -> list[Doubles]:
    """Return the values at which each sensor usually rests: the values of its longest runs, at most MOST_RESTING."""
    out = []
    for sensor in range(len(values)):
        long = runs.length[sensor] >= _RESTING_RUN
        found, place = np.unique(runs.value[sensor][long], return_inverse=True)
        longest = np.zeros(len(found), np.int64)
        np.maximum.at(longest, place.reshape(-1), runs.length[sensor][long])
        out.append(found[np.argsort(-longest, kind="stable")[:MOST_RESTING]])
    return out


def began_together(start: Ints, among: Bools) -> list[Ints]:
    """Return groups of sensors whose runs or silences began within two steps of one another.

    Args:
        start: int64 [C], first steps.
        among: bool [C], sensors that count.
    """
    order = np.flatnonzero(among)[np.argsort(start[among], kind="stable")]
    if not len(order):
        return []
    parts = np.split(order, np.flatnonzero(np.diff(start[order]) > _TOGETHER) + 1)
    return [np.sort(part) for part in parts]


def _at(values: Doubles, place: Ints) -> Doubles:
    out: Doubles = np.take_along_axis(values, np.maximum(place, 0), axis=1)
    return out
