"""Chooses the method for cells of filled gaps so far from readings that the form's windows may hold none.

The choice between form and line is made on hidden cells, most of which have readings nearby. Where a window has no
reading of the sensor, the form returns to the sensor's usual level, however slowly the sensor moves: in simulated
tables whose last 45 readings of a slow sensor were missing, it had 5 times the error of the last value. So the error
that the form's deviation implies is compared with the errors of the line across stretches as long as the gap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.tables.lines import runs

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]

_MOST_PLACES = 16  # places of a gap at which the line is tried
_LEAST_ERRORS = 20
_APART = 3  # gap lengths that a series needs for a trial of the line


def better_by_line(values: Doubles, far: Bools, expected: Doubles, told: Bools) -> Bools:
    """Choose the far cells [C, N] of gaps where the line has the smaller expected mean error.

    Args:
        values: float64 [C, N], readings in sensor units; NaN where missing.
        far: bool [C, N], missing cells too far from readings of their sensor.
        expected: float64 [C, N], absolute errors that the form expects in far cells.
        told: bool [C, N], cells that stay with the form if there are too few readings to try the line.
    """
    out = np.zeros(far.shape, np.bool_)
    for sensor in np.flatnonzero(far.any(axis=1)):
        row = values[sensor]
        tried: dict[tuple[int, bool, int], float] = {}
        for first, end in zip(*runs(np.isnan(row)), strict=True):
            gap = slice(first, end)
            cells = far[sensor, gap]
            if not cells.any():
                continue
            between = bool(first > 0 and end < len(row))
            nearest = int(np.flatnonzero(cells)[0] if first else np.flatnonzero(cells[::-1])[0]) + 1
            key = (int(end - first), between, nearest)
            if key not in tried:
                tried[key] = _error(row, *key)
            line, form = tried[key], float(expected[sensor, gap][cells].mean())
            out[sensor, gap] = cells & (~told[sensor, gap] if np.isnan(line) else line < form)
    return out


def _error(row: Doubles, length: int, between: bool, nearest: int) -> float:
    """Mean absolute error of lines across stretches of a row [N], at places like a gap's far ones; NaN if unknown.

    Args:
        row: float64 [N], readings; NaN where missing.
        length: length of the gap in steps.
        between: True if the gap has readings on both sides.
        nearest: steps from the reading before the gap to the first far cell.
    """
    if len(row) < _APART * length:
        return np.nan
    last = length + 1 - nearest if between else length
    places = np.unique(np.linspace(nearest, last, _MOST_PLACES).astype(np.int64)).tolist()
    errors = np.concatenate([_errors(row, length + 1 if between else 0, place) for place in places])
    return float(errors.mean()) if len(errors) >= _LEAST_ERRORS else np.nan


def _errors(row: Doubles, across: int, place: int) -> Doubles:
    """Absolute errors, `place` steps after a reading, of lines across `across` steps; 0: of the last value."""
    if not across:
        errors = np.abs(row[place:] - row[:-place])
    else:
        starts, ends = row[:-across], row[across:]
        errors = np.abs(row[place : place - across] - starts - (ends - starts) * (place / across))
    return np.asarray(errors[~np.isnan(errors)], np.float64)
