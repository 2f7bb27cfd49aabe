"""Drift in the stream: the means of each sensor's newest blocks, and which sensors were at fault in them.

A sensor drifts once it was at fault in five of six blocks, and while the others are calm without it. If the others are
calm without either of several sensors, the culprit is the one without which they are calmest: unlike in files, an event
cannot wait for the decision. If enough sensors for a shift are at fault within these blocks, the whole group shifts:
the habits, or a model, are out of date, and no single sensor is to blame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.health import BLOCK, FEWEST, Found, LiveHabits, drift, of_whole, whole
from glaim_stream.windows.rings import Rings, RowArray

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

CONFIRMING = 6  # blocks
_LASTING = 5  # blocks of these in which the sensor is at fault
_CALM = 0.8  # share of the limit; others above it may be about to leave their estimates too
_AT_FAULT, _ALONE = 1, 2  # _ALONE: at fault, and the others are calm without it


class DriftTracker:
    """Block means of one model's groups in one partition, in the newest `drift.BLOCKS` blocks."""

    def __init__(self, rings: Rings) -> None:
        """Start with nothing known.

        Args:
            rings: state of the model's groups.
        """
        self._rings = rings
        self._means = rings.attach((rings.sensors, drift.BLOCKS), np.int32)  # parts of a scale, as `whole` makes them
        self._known = rings.attach((rings.sensors, drift.BLOCKS), np.int8)
        self._faults = rings.attach((rings.sensors, CONFIRMING), np.int8)

    @property
    def arrays(self) -> tuple[RowArray[Any], ...]:
        """Arrays [rows, C, blocks] addressed by block modulo length."""
        return self._means, self._known, self._faults

    def judge(
        self,
        live: LiveHabits,
        block: int,
        values: Doubles,
        observed: Bools,
        place: Ints,
        doubted: Callable[[int], Bools],
    ) -> Found:
        """Judge the sensors of R groups at the end of a block.

        Args:
            live: habits that judge drift.
            block: number of the block.
            values: float64 [R, C, BLOCK], readings at the block's steps.
            observed: bool [R, C, BLOCK].
            place: int64 [R], row of each group in the habits.
            doubted: gives the sensors of a row that are known to be faulty otherwise, bool [C].
        """
        rows = len(values)
        limit = live.limit["drift"]
        self._note(live, block, values, observed, place)
        means = self._means_of(live, block, rows)
        score = drift.scores(live.estimates, means, limit).T
        fault = self._faults.array[:rows]
        slot = block % CONFIRMING
        for row in np.flatnonzero((score > 1.0).any(axis=1)).tolist():

            def rest(removed: Bools, row: int = row) -> Doubles:
                one = slice(row, row + 1)
                return drift.scores(live.estimates, means[:, one], limit, removed)[:, 0]

            found = drift.culprits(rest, score[row], doubted(row))
            fault[row, :, slot] = np.where(found.fault, _ALONE if found.unrest <= _CALM else _AT_FAULT, 0)
        count = (fault != 0).sum(axis=2)
        shift = (count > 0).sum(axis=1) >= drift.shared_by(count.shape[1])
        alone = (fault[:, :, slot] == _ALONE) & (count >= _LASTING)
        known = np.isfinite(means.T)
        alarm = np.where(shift[:, None], known, alone)
        shape = score.shape
        age = np.full(shape, drift.BLOCKS * BLOCK - 1, np.int64)
        statistic = np.where(np.isfinite(limit), score * limit, 0.0)
        return Found(alarm, statistic, np.broadcast_to(limit, shape), age, np.broadcast_to(shift[:, None], shape))

    def _note(self, live: LiveHabits, block: int, values: Doubles, observed: Bools, place: Ints) -> None:
        level = live.levels[place][:, :, None]
        with np.errstate(over="ignore", invalid="ignore"):
            size = (values - level) / live.estimates.scale[:, None]
        used = observed & np.isfinite(size)
        parts = whole(np.where(used, np.clip(size, -drift.MOST, drift.MOST), 0.0)).sum(axis=2)
        readings = used.sum(axis=2)
        enough = readings >= FEWEST
        slot = block % drift.BLOCKS
        rows = len(values)
        self._means.array[:rows, :, slot] = np.where(enough, np.rint(parts / np.maximum(readings, 1)), 0)
        self._known.array[:rows, :, slot] = enough

    def _means_of(self, live: LiveHabits, block: int, rows: int) -> Doubles:
        """Means of the newest blocks [C, R], in sensor units less the levels."""
        total = self._means.array[:rows].sum(axis=2, dtype=np.int64)
        known = self._known.array[:rows]
        newest = known[:, :, block % drift.BLOCKS] != 0
        return (drift.mean(of_whole(total), known.sum(axis=2, dtype=np.int64), newest) * live.estimates.scale).T
