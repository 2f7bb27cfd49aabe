"""Rows with the time of a wrong clock: they keep their cells, get no fill and are not used.

A row of 1970 among those of this week would make a grid of millions of steps, in which no window is observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.stray_times import FEWEST, stray_times
from glaim_stream.core.times import NO_TIME

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class StrayRows:
    """The number of rows with a stray time, and the first of them (counted from 0) with its time."""

    count: int
    row: int
    time_ms: int

    def said(self, time: str, *, counted_from: int = 1) -> str:
        """A sentence about the stray rows.

        Args:
            time: time of the first stray row, as text.
            counted_from: number of the table's first row.
        """
        first = f"{'first ' if self.count > 1 else ''}row {self.row + counted_from:,}, {time}"
        return (
            f"rows with a time far from all others, as of a wrong clock: {self.count:,} ({first}): kept as they are, "
            "not filled, and not used to fill others"
        )


def stray_rows(times_ms: Ints, members: Sequence[Ints]) -> Bools:
    """Find the rows whose times are far from the others of their group; for the rule see `stray_times`.

    Groups may lie years apart, since each has its own grid. A group with too few rows for the rule is compared with all
    rows of the table.

    Args:
        times_ms: int64 [rows], NO_TIME where a row has none.
        members: rows of each group.
    """
    dated = np.flatnonzero(times_ms != NO_TIME)
    among_all = np.zeros(len(times_ms), np.bool_)
    among_all[dated] = stray_times(times_ms[dated])
    found = np.zeros(len(times_ms), np.bool_)
    for rows in members:
        mine = rows[times_ms[rows] != NO_TIME]
        found[mine] = stray_times(times_ms[mine]) if len(mine) >= FEWEST else among_all[mine]
    return found


def counted(times_ms: Ints, stray: Bools) -> StrayRows | None:
    """Count stray rows; None without any."""
    if not stray.any():
        return None
    first = int(np.argmax(stray))
    return StrayRows(int(stray.sum()), first, int(times_ms[first]))
