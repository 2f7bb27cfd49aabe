"""Checks whether the rows of a table have one step: stamps may jitter around it, but not follow another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.files.grid import Grid

Ints = NDArray[np.int64]

_MOST = 0.05  # tolerated share of the distances: clocks that are set or restart change some
# Fraction of a step by which a distance may miss a multiple: each of two stamps jitters by less than half of that.
_FAR = 0.3
_CLOSE = 0.1  # fraction of a step by which the median of a distance and its neighbours may miss a multiple
_SIDE = 4  # neighbours on each side: jitter misses multiples in both directions, another step in one


@dataclass(frozen=True)
class Uneven:
    """A group in which too many distances between rows are not multiples of the step.

    count, of: number of such distances, and of all.
    """

    group: int
    count: int
    of: int
    step_ms: int

    @property
    def share(self) -> float:
        """The share of the distances that are not multiples."""
        return self.count / self.of


def uneven(grids: Sequence[Grid], times_ms: Sequence[Ints]) -> Uneven | None:
    """Find the group that fits its step least; None where all fit.

    Args:
        grids: grids of the groups, all with the same step.
        times_ms: int64 [rows] for each group, times of its rows.
    """
    found = [_judged(code, *pair) for code, pair in enumerate(zip(grids, times_ms, strict=True))]
    return max((each for each in found if each.of and each.share > _MOST), key=lambda each: each.share, default=None)


def _judged(group: int, grid: Grid, times_ms: Ints) -> Uneven:
    dated = grid.rows >= 0
    # Where rows share a step, the first one counts.
    order = np.argsort(times_ms[dated], kind="stable")
    _, first = np.unique(grid.rows[dated][order], return_index=True)
    distances = np.diff(times_ms[dated][order][first]) / grid.step_ms
    if not len(distances):
        return Uneven(group, 0, 0, grid.step_ms)
    missed = distances - np.floor(distances + 0.5)
    around = np.lib.stride_tricks.sliding_window_view(np.pad(missed, _SIDE, mode="symmetric"), 2 * _SIDE + 1)
    count = int(((np.abs(missed) > _FAR) | (np.abs(np.median(around, axis=1)) > _CLOSE)).sum())
    return Uneven(group, count, len(distances), grid.step_ms)
