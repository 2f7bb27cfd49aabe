"""Statistics of single sensors that grow with a fault: spikes, chatter, and stamps that jump.

Each depends on `WINDOW + 2 * NEAR` steps at most. A reading is compared with the two before it if no more than NEAR
steps lie between two of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.health.series import NEVER, GridSeries, before, last_reading, sliding_count, sliding_sum

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

WINDOW = 48  # steps
NEAR = 8  # most steps between two readings that are compared
FEWEST = WINDOW // 4  # readings
MOST_OF_SPIKE, MOST_OF_JUMP = 3.0, 3.0  # most units that one reading counts
_QUANTILE_OF_SPIKES, _QUANTILE_OF_JUMPS = 0.999, 0.95


@dataclass(frozen=True)
class Units:
    """Usual values of each sensor, float64 [C].

    peak: height of a reading above or below both its neighbours that one reading in a thousand exceeds.
    bend: distance of a reading from the middle of its neighbours that one reading in twenty exceeds.
    """

    peak: Doubles
    bend: Doubles


def units_of(parts: list[GridSeries]) -> Units:
    """Learn the units from the readings of all groups."""
    peaks, bends = zip(*(peaks_and_bends(part) for part in parts), strict=True)
    return Units(_quantiles(peaks, _QUANTILE_OF_SPIKES), _quantiles(bends, _QUANTILE_OF_JUMPS))


def spiking(series: GridSeries, units: Units) -> Doubles:
    """Return the sum of the spikes of the last WINDOW steps [C, N], each less a unit and at most `MOST_OF_SPIKE`.

    A spike that half of the other sensors show too does not count.
    """
    peak, _ = peaks_and_bends(series)
    size = np.nan_to_num(peak) / units.peak[:, None] - 1.0
    spike = size > 0
    others = spike.sum(axis=0) - spike
    shared = others >= np.maximum(len(size) - 1, 2) / 2
    return sliding_sum(np.where(shared, 0.0, np.clip(size, 0.0, MOST_OF_SPIKE)), WINDOW)


def spike_share(series: GridSeries, units: Units, steps: int) -> Doubles:
    """Return the share of the last `steps` steps whose readings show a spike, [C, N]."""
    peak, _ = peaks_and_bends(series)
    return sliding_count(np.nan_to_num(peak) > units.peak[:, None], steps) / steps


def chatter(series: GridSeries, units: Units) -> Doubles:
    """Return the mean bend of the last WINDOW steps [C, N], in units; 0 with few readings."""
    _, bend = peaks_and_bends(series)
    known = np.isfinite(bend)
    size = np.where(known, np.minimum(np.nan_to_num(bend) / units.bend[:, None], MOST_OF_JUMP), 0.0)
    return _mean(size, known)


def clock(series: GridSeries) -> Doubles:
    """Return the mean move of stamps within their steps, from one reading to the next, over the last WINDOW steps."""
    return _mean(*moves(series))


def moves(series: GridSeries) -> tuple[Doubles, Bools]:
    """Return the move of each reading's stamp since the reading before, and where it is known, both [C, N].

    The distance of two places in a step is at most half a step: a stamp just before the end of one step and a stamp
    just after the beginning of the next one are near each other. An unknown move is 0.
    """
    if series.offset is None:
        return np.zeros(series.values.shape), np.zeros(series.values.shape, np.bool_)
    previous = before(last_reading(series.observed), series.observed)
    known = series.observed & _near(np.arange(series.steps), previous)
    moved = series.offset - np.take_along_axis(series.offset, np.maximum(previous, 0), axis=1)
    return np.where(known, around(moved), 0.0), known


def around(moved: Doubles) -> Doubles:
    """Return the size of moves of less than a step on the circle of a step, in steps."""
    size = np.abs(moved)
    return np.minimum(size, 1.0 - np.minimum(size, 1.0))


def peaks_and_bends(series: GridSeries) -> tuple[Doubles, Doubles]:
    """Return peak and bend of the reading before the last one, at each step with a reading, [C, N].

    Both are NaN if the reading has no near neighbours.
    """
    values, observed = series.values, series.observed
    last = last_reading(observed)
    middle = before(last, observed)
    first = np.where(middle == NEVER, NEVER, before(np.maximum(middle, 0), observed))
    first = np.where(middle == NEVER, NEVER, np.take_along_axis(before(last, observed), np.maximum(middle, 0), axis=1))
    known = observed & _near(np.arange(series.steps), middle) & (first != NEVER) & (middle - first <= NEAR)
    before_it, at_it = (np.take_along_axis(values, np.maximum(each, 0), axis=1) for each in (first, middle))
    with np.errstate(over="ignore", invalid="ignore"):
        rise, fall = at_it - before_it, at_it - values
        peak = np.where(rise * np.sign(fall) > 0, np.minimum(np.abs(rise), np.abs(fall)), 0.0)
        bend = np.abs(rise + fall) / 2
    return np.where(known, peak, np.nan), np.where(known, bend, np.nan)


def _near(steps: Ints, previous: Ints) -> Bools:
    near: Bools = (previous != NEVER) & (steps - previous <= NEAR)
    return near


def mean_of(total: Doubles, count: Ints) -> Doubles:
    """Return the means of sums; 0 with fewer than FEWEST readings."""
    return np.where(count >= FEWEST, total / np.maximum(count, 1), 0.0)


def _mean(size: Doubles, known: Bools) -> Doubles:
    return mean_of(sliding_sum(size, WINDOW), sliding_count(known, WINDOW))


def _quantiles(parts: tuple[Doubles, ...], share: float) -> Doubles:
    """A quantile over all groups of the values above 0, float64 [C]; infinite if there are none."""
    out = np.full(len(parts[0]), np.inf)
    for sensor in range(len(out)):
        seen = np.concatenate([part[sensor] for part in parts])
        seen = seen[np.isfinite(seen) & (seen > 0)]
        if len(seen):
            out[sensor] = np.quantile(seen, share)
    return out
