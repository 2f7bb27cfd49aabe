"""Bands of a meter's line across a gap longer than a window.

The total that a meter counted in a gap is known, but not its course. A flow that stays high for an hour takes the count
further from the line than errors in short gaps suggest: in simulated gaps, bands that grow like those of a random walk
held a sixth of the true values. So the line is tried on stretches of the meter's readings that are as long as the gap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.tables.lines import runs

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]

_MOST_STRETCHES = 100  # stretches in a trial of the line; more would overlap too much to tell anything new
_APART = 3  # least stretches side by side: errors within one stretch are correlated


def bounds(row: Doubles, line: Doubles, scale: Doubles, cells: Bools) -> tuple[Doubles, Doubles]:
    """Lower and upper ends of a meter's 90 % band [N] in the gaps of some cells; NaN elsewhere.

    The count always lies between the two readings. If there are too few readings for a trial, this range is the band.

    Args:
        row: float64 [N], readings in the meter's unit; NaN where missing.
        line: float64 [N], line between the readings.
        scale: float64 [N], scale of `Lines`.
        cells: bool [N], missing cells between two readings, the later one not smaller.
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
    """Half of the 90 % band of lines across `length` steps, in scales of `Lines`; infinite if unknown."""
    with np.errstate(invalid="ignore"):
        starts = np.flatnonzero(row[length:] >= row[:-length])  # false where one of the two is missing
    if not len(starts) or starts[-1] - starts[0] < (_APART - 1) * length:
        return np.inf
    starts = starts[:: -(-len(starts) // _MOST_STRETCHES), None]
    step = np.arange(1, length)
    error = np.abs(row[starts + step] - row[starts] - (row[starts + length] - row[starts]) * step / length)
    ratio = (error / np.sqrt(step * (length - step) / length))[~np.isnan(error)]
    return float(np.quantile(ratio, 0.9)) if len(ratio) else np.inf
