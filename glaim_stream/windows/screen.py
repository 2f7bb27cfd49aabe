"""Finds windows that may hold a doubtful reading, by sums that follow each window instead of reading all its cells.

`plausibility` looks closer at a sensor whose reading furthest from its mean is many deviations away. Few windows have
one, and each differs from the window one step before in two cells. So the sums for mean and deviation are carried from
window to window, with a range that holds all readings. A window that these show to be unsuspicious, by a margin, need
not be read. All others are judged as if there were no screen, so no row depends on it.

The sums begin anew once in a window's length of steps, after a step that was left out, and where a late reading has
changed the window. Until then they lose less than W^2 / 2 roundings of the largest squared distance from `middle` (1e-9
of it for 4,096 steps), which is well below the variance: `_LEAST_SHARE`. The mean that `plausibility` computes loses
less than W roundings of the largest value (5e-13 of it), which is well below the deviation: `_LEAST_RATIO`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.health import FEWEST_READINGS, Plausibility, screen_of
from glaim_stream.windows.holes import LookBack
from glaim_stream.windows.rings import Rings, RowArray

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_MARGIN = 1.01
_LEAST_SHARE = 1e-6  # share of the largest squared distance
_LEAST_RATIO = 1e-6  # share of the largest value
_TINY, _HUGE = 1e-200, 1e100  # between a variance and a value of these sizes no square is lost or infinite


class Screen:
    """The screen of one model's groups in one partition, by row of the rings."""

    def __init__(self, rings: Rings, rule: Plausibility) -> None:
        self._rings, self._rule = rings, rule
        self._through: int | None = None  # newest step of the windows that the sums cover
        self._known = rings.attach((), np.bool_)  # whether the sums are those of the row's window

        def sums() -> RowArray[Any]:
            return rings.attach((rings.sensors,), np.float64)

        self._middle = sums()  # a value amid the readings; the sums are of distances from it
        self._count, self._distance, self._square = sums(), sums(), sums()
        self._least, self._most = sums(), sums()  # all readings lie between them

    def forget(self, rows: Ints) -> None:
        """Begin the sums of these rows anew: a reading has changed a closed step."""
        self._known.array[rows] = False

    def suspects(self, lookback: LookBack) -> Bools:
        """Move on to the window that ends with a step; return which rows may hold a doubtful reading, bool [R].

        Args:
            lookback: observations up to a step that event time closes.
        """
        step, window = lookback.step, self._rings.window
        if self._through is None or step != self._through + 1 or step % window == 0:
            self._known.array[:] = False
        self._through = step
        self._move(lookback)
        return ~self._known.array[: len(lookback.observed)] | self._may_be_apart(len(lookback.observed)).any(axis=1)

    def begin(self, rows: Ints, values: Doubles, observed: Bools) -> None:
        """Compute the sums that are not known from the windows of their rows, which have been read.

        Args:
            rows: [k], rows of the rings.
            values: [k, C, window], 0 where not observed.
            observed: [k, C, window].
        """
        unknown = np.flatnonzero(~self._known.array[rows])
        if len(unknown):
            rows, values, observed = rows[unknown], values[unknown], observed[unknown]
            with np.errstate(all="ignore"):
                count = observed.sum(axis=2)
                middle = values.sum(axis=2) / np.maximum(count, 1)
                distance = np.where(observed, values - middle[:, :, None], 0.0)
                self._middle.array[rows], self._count.array[rows] = middle, count
                self._distance.array[rows] = distance.sum(axis=2)
                self._square.array[rows] = (distance * distance).sum(axis=2)
            self._least.array[rows] = np.where(observed, values, np.inf).min(axis=2)
            self._most.array[rows] = np.where(observed, values, -np.inf).max(axis=2)
            self._known.array[rows] = True

    def _move(self, lookback: LookBack) -> None:
        """Add the cells that enter the windows, and take away those that leave them."""
        rings, rows = self._rings, len(lookback.observed)
        enters, leaves = rings.slots(np.array([lookback.step, lookback.step - rings.window])).tolist()
        # Each cell lies in a cache line of its own, so the cells are read once.
        there, gone = lookback.observed[:, :, -1].copy(), rings.observed[:rows, :, leaves].copy()
        value, left = rings.values[:rows, :, enters].copy(), rings.values[:rows, :, leaves].copy()
        middle = self._middle.array[:rows]
        with np.errstate(all="ignore"):
            added = np.where(there, value - middle, 0.0)
            removed = np.where(gone, left - middle, 0.0)
            self._count.array[:rows] += np.subtract(there, gone, dtype=np.float64)
            self._distance.array[:rows] += added - removed
            self._square.array[:rows] += added * added - removed * removed
        least, most = self._least.array[:rows], self._most.array[:rows]
        np.minimum(least, value, out=least, where=there)
        np.maximum(most, value, out=most, where=there)

    def _may_be_apart(self, rows: int) -> Bools:
        """Find, by the sums, the sensors that may have a doubted reading, bool [R, C]."""
        count, middle = self._count.array[:rows], self._middle.array[:rows]
        least, most = self._least.array[:rows], self._most.array[:rows]
        with np.errstate(all="ignore"):
            below, above = middle - least, most - middle
            mean = self._distance.array[:rows] / count  # mean less the middle
            variance = self._square.array[:rows] / count - mean * mean
            widest = np.maximum(above - mean, below + mean)
            reach = np.maximum(below, above)
            largest = np.maximum(np.abs(least), np.abs(most))
            sure = widest * widest * _MARGIN <= screen_of(count) * variance
            sure &= variance > np.maximum(_LEAST_SHARE * reach * reach, (_LEAST_RATIO * largest) ** 2)
            sure &= variance > _TINY
            sure |= least == most
            sure &= largest < _HUGE
        sure |= count < FEWEST_READINGS
        apart: Bools = (~sure | self._rule.may_be_beyond(least, most)) & self._rule.judged
        return apart
