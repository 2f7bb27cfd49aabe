"""Bands of a meter's line across a gap longer than a window.

What a meter counted in a gap is known; when it did so is not. A flow that stays high for an hour takes the count
further from the line than errors in short gaps suggest: in simulated ones, bands that grow like those of a random walk
held a sixth of the truth. So the line is drawn across stretches of the meter's readings that are as long as the gap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.tables.lines import runs

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]

_MOST_STRETCHES = 100  # on which the line is tried; more of them overlap so far that they tell nothing new
_APART = 3  # at least as many stretches side by side, for errors of one are much alike


def bounds(row: Doubles, line: Doubles, scale: Doubles, cells: Bools) -> tuple[Doubles, Doubles]:
    """Lower and upper ends of the 90 % band of a meter [N] in the gaps of some cells; NaN elsewhere.

    The count lies between the two readings in any case. Where there are too few readings for a trial, that is the band.

    Args:
        row: float64 [N], readings in the meter's unit; NaN where missing.
        line: float64 [N], the line between them.
        scale: float64 [N], as in `Lines`.
        cells: bool [N], missing ones between two readings of which the later one is not smaller.
    """
    lower, upper = np.full(row.shape, np.nan), np.full(row.shape, np.nan)
    for first, end in zip(*runs(np.isnan(row)), strict=True):
        if cells[first:end].any():
            gap = slice(first, end)
            half = _width(row, int(end - first + 1)) * scale[gap]
            lower[gap] = np.maximum(line[gap] - half, row[first - 1])
            upper[gap] = np.minimum(line[gap] + half, row[end])
    return lower, upper


def _width(row: Doubles, length: int) -> float:
    """How many scales of `Lines` nine of ten readings lie within of lines across so many steps; infinite if unknown."""
    with np.errstate(invalid="ignore"):
        starts = np.flatnonzero(row[length:] >= row[:-length])  # false where one of the two is missing
    if not len(starts) or starts[-1] - starts[0] < (_APART - 1) * length:
        return np.inf
    starts = starts[:: -(-len(starts) // _MOST_STRETCHES), None]
    step = np.arange(1, length)
    error = np.abs(row[starts + step] - row[starts] - (row[starts + length] - row[starts]) * step / length)
    ratio = (error / np.sqrt(step * (length - step) / length))[~np.isnan(error)]
    return float(np.quantile(ratio, 0.9)) if len(ratio) else np.inf
