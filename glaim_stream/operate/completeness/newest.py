"""Merges the rows of one sensor in the topic into cells that count once.

A cell may have several rows: a first estimate, a final one, corrections, and copies that a worker published again
after a crash. Its highest revision counts; on a tie the last row in the topic.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import Method
from glaim_stream.operate.completeness.tally import Bools, Cells, Ints
from glaim_stream.operate.sorting import Rows

ROW = np.dtype(
    [
        ("series", "<i4"),  # a number for each sensor of each group
        ("step", "<i8"),
        ("revision", "<i4"),
        ("method", "i1"),
        ("good", "?"),
        ("delay_ms", "<f8"),
    ]
)
BY = ("series", "step")
TOO_LATE = -1  # stands for a method: a reading of the late topic, whose revision is below every row's


def cells_of(rows: Rows, cadence: int) -> Cells:
    """The cells of one sensor.

    Args:
        rows: rows of ROW, ascending by step, and in the order of the topic within a step.
        cadence: steps in which one reading is due; they make one cell, which has arrived with any reading in it.
    """
    cell_of_row = rows["step"] // cadence
    cell, first = np.unique(cell_of_row, return_index=True)
    place = np.repeat(np.arange(len(cell)), np.diff(np.append(first, len(rows))))

    def any_of(chosen: Bools) -> Bools:
        return np.bincount(place[chosen], minlength=len(cell)) > 0

    # The topic's order within a step stays where revisions are equal, because this sort is stable.
    by_revision = np.lexsort((rows["revision"], rows["step"]))
    step = rows["step"][by_revision]
    is_newest = np.append(step[1:] != step[:-1], True)
    newest = np.zeros(len(rows), np.bool_)
    newest[by_revision[is_newest]] = True

    observed = rows["method"] == Method.OBSERVED
    marked = rows["method"] == TOO_LATE
    arrived = any_of(newest & observed)
    too_late = any_of(marked) & ~arrived
    guessed_before = any_of(~observed & ~marked)
    method = np.full(len(cell), Method.NONE, np.int8)
    counting = newest & ~observed & ~marked
    method[place[counting]] = rows["method"][counting]  # numpy keeps the last one of repeated assignments
    method[arrived] = Method.OBSERVED
    return Cells(
        cell,
        method,
        any_of(newest & observed & rows["good"]),
        (arrived & guessed_before) | too_late,
        too_late,
        any_of(~marked),
        _first(rows["delay_ms"], observed, place, len(cell)),
    )


def _first(delay_ms: NDArray[np.float64], observed: Bools, place: Ints, cells: int) -> NDArray[np.float64]:
    """The delay of each cell's first observed row: a copy of that row may come much later."""
    out = np.full(cells, np.nan)
    rows = np.flatnonzero(observed)[::-1]
    out[place[rows]] = delay_ms[rows]  # numpy keeps the last one, here the first in the topic
    return out
