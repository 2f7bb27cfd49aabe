"""Whether the rows of a table have one step: stamps may jitter around it, but not follow another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.files.grid import Grid

Ints = NDArray[np.int64]

_MOST = 0.05  # share of the distances; clocks that are set or restart change some of them
# Of a step, by which a distance misses a multiple of it: each of two stamps jitters by less than half of that.
_FAR = 0.3
_CLOSE = 0.1  # of a step, by which the median of a distance and its neighbours misses a multiple ...
_SIDE = 4  # neighbours on each side: jitter misses multiples in both directions, another step always alike


@dataclass(frozen=True)
class Uneven:
    """A group of which too many distances between rows are no multiples of the step.

    count, of: how many are not, and how many there are.
    """

    group: int
    count: int
    of: int
    step_ms: int

    @property
    def share(self) -> float:
        """The share of the distances that are no multiples."""
        return self.count / self.of


def uneven(grids: Sequence[Grid], times_ms: Sequence[Ints]) -> Uneven | None:
    """Find the group that fits its step least; None where all fit.

    Args:
        grids: of the groups, with one step.
        times_ms: for each group int64 [rows], the times of the rows of its grid.
    """
    found = [_judged(code, *pair) for code, pair in enumerate(zip(grids, times_ms, strict=True))]
    return max((each for each in found if each.of and each.share > _MOST), key=lambda each: each.share, default=None)


def _judged(group: int, grid: Grid, times_ms: Ints) -> Uneven:
    dated = grid.rows >= 0
    # Of rows that share a step, the first one counts.
    order = np.argsort(times_ms[dated], kind="stable")
    _, first = np.unique(grid.rows[dated][order], return_index=True)
    distances = np.diff(times_ms[dated][order][first]) / grid.step_ms
    if not len(distances):
        return Uneven(group, 0, 0, grid.step_ms)
    missed = distances - np.floor(distances + 0.5)
    around = np.lib.stride_tricks.sliding_window_view(np.pad(missed, _SIDE, mode="symmetric"), 2 * _SIDE + 1)
    count = int(((np.abs(missed) > _FAR) | (np.abs(np.median(around, axis=1)) > _CLOSE)).sum())
    return Uneven(group, count, len(distances), grid.step_ms)
