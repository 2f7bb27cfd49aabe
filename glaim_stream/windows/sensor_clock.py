"""Clocks in the stream: how far each sensor's stamps move within their steps from one reading to the next.

Moves are summed up block by block, as whole numbers, and their mean over the newest `statistics.WINDOW` steps is
judged. A clock that is off by the same time, or that drifts slowly, moves no stamp far.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.health import BLOCK, WINDOW_BLOCKS, Found, LiveHabits, Series, of_whole, statistics, whole
from glaim_stream.windows.rings import Rings, RowArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_STEPS = BLOCK + statistics.NEAR  # that the moves of a block depend on


class ClockTracker:
    """Moves of the stamps of one model's groups in one partition, in the newest blocks."""

    def __init__(self, rings: Rings, step_ms: int) -> None:
        """Start with nothing known.

        Args:
            rings: of the model.
            step_ms: of the model.
        """
        self._rings, self._step_ms = rings, step_ms
        self._moved = rings.attach((rings.sensors, WINDOW_BLOCKS), np.int32)  # parts of a step, as `whole` makes them
        self._count = rings.attach((rings.sensors, WINDOW_BLOCKS), np.int8)

    @property
    def arrays(self) -> tuple[RowArray[Any], ...]:
        """Arrays [rows, C, blocks] addressed by block modulo length."""
        return self._moved, self._count

    def judge(self, live: LiveHabits, step: int, observed: Bools) -> Found:
        """Judge the sensors of all R groups at the end of a block.

        Args:
            live: habits that judge clocks.
            step: the block's last one.
            observed: bool [R, C, T], the window that ends with it.
        """
        rows, slot = len(observed), step // BLOCK % WINDOW_BLOCKS
        moved, known = self._moves(step, observed[..., -_STEPS:])
        self._moved.array[:rows, :, slot] = whole(moved).sum(axis=2)
        self._count.array[:rows, :, slot] = newest = np.count_nonzero(known, axis=2)
        total = self._moved.array[:rows].sum(axis=2, dtype=np.int64)
        count = self._count.array[:rows].sum(axis=2, dtype=np.int64)
        mean = statistics.mean_of(of_whole(total), count)
        limit = np.broadcast_to(live.limit["clock"], mean.shape)
        age = np.full(mean.shape, statistics.WINDOW - 1, np.int64)
        return Found((mean > limit) & (newest > 0), mean, limit, age, np.zeros(mean.shape, np.bool_))

    def _moves(self, step: int, observed: Bools) -> tuple[NDArray[np.float64], Bools]:
        """Those of `statistics` at the steps of the newest block, [R, C, BLOCK]; without holes a short way."""
        stamps = self._rings.past(self._rings.stamp_ms, slice(len(observed)), step, _STEPS) / self._step_ms
        moved = statistics.around(np.diff(stamps[..., -BLOCK - 1 :]))
        known = observed[..., -BLOCK:].copy()
        holes = ~observed[..., -BLOCK - 1 :].all(axis=2)
        if holes.any():
            values = stamps[holes]
            found = statistics.moves(Series("", 0, 1, values, observed[holes], offset=values))
            moved[holes], known[holes] = (each[:, -BLOCK:] for each in found)
        return moved, known
