"""Clocks in the stream: how far each sensor's stamps move within their steps from one reading to the next.

Moves are summed up block by block, as whole numbers, and their mean over the newest `statistics.WINDOW` steps is
judged. A constant error or a slow drift of a clock moves no stamp far.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.health import BLOCK, WINDOW_BLOCKS, Found, LiveHabits, Series, of_whole, statistics, whole
from glaim_stream.windows.rings import Rings, RowArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_STEPS = BLOCK + statistics.NEAR  # steps that the moves of a block depend on


class ClockTracker:
    """Moves of the stamps of one model's groups in one partition, in the newest blocks."""

    def __init__(self, rings: Rings, step_ms: int) -> None:
        """Start with nothing known.

        Args:
            rings: state of the model's groups.
            step_ms: length of the model's steps.
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
            step: last step of the block.
            observed: bool [R, C, T], observed cells of the window that ends with the block.
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
        """Moves (see `statistics`) and known cells at the newest block's steps, [R, C, BLOCK]; faster without holes."""
        stamps = self._rings.past(self._rings.stamp_ms, slice(len(observed)), step, _STEPS) / self._step_ms
        moved = statistics.around(np.diff(stamps[..., -BLOCK - 1 :]))
        known = observed[..., -BLOCK:].copy()
        holes = ~observed[..., -BLOCK - 1 :].all(axis=2)
        if holes.any():
            values = stamps[holes]
            found = statistics.moves(Series("", 0, 1, values, observed[holes], offset=values))
            moved[holes], known[holes] = (each[:, -BLOCK:] for each in found)
        return moved, known
