"""The 90 % bands of filled cells.

The total that a meter counted in a gap is known, but not its course. A flow that stays high for an hour takes the count
further from the line than errors in short gaps suggest: in simulated gaps, bands that grow like those of a random walk
held a sixth of the true values. So the line is tried on stretches of the meter's readings that are as long as the gap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form import Limits, by_kind
from glaim_stream.tables.choice import Choice
from glaim_stream.tables.fitted import Fitted
from glaim_stream.tables.holes import Holes
from glaim_stream.tables.lines import Lines, runs
from glaim_stream.tables.resting import apart
from glaim_stream.tables.units import units_of

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]
_MOST_STRETCHES = 100  # stretches in a trial of the line; more would overlap too much to tell anything new
_APART = 3  # least stretches side by side: errors within one stretch are correlated


def bands(
    fitted: Fitted, holes: Holes, choice: Choice, line: Lines, filled: Doubles, deviation: Doubles, limits: Limits
) -> tuple[Doubles, Doubles]:
    """Return the lower and upper ends of the bands, float64 [C, N]; cells that are not filled keep their value.

    Args:
        fitted: fit of the sensors.
        holes: holes of the group.
        choice: method of each hole.
        line: lines of the group.
        filled: float64 [C, N], filled values in sensor units.
        deviation: float64 [C, N], deviations of the form's answers.
        limits: limits that the ends respect.
    """
    units = units_of(holes.values, fitted.kinds, fitted.common_units)
    half = np.where(choice.by_form, deviation * _widths(fitted, holes.far(fitted.long_gaps)), 0.0)
    half = np.where(choice.by_line, _line_half(line.scale, _line_widths(fitted, holes) * units[:, None], holes), half)
    half = np.where(holes.missing, _not_too_near(fitted, half, holes.distance, choice.by_form, units), 0.0)
    lower, upper = _ends(filled, half, choice.filled, limits, fitted)
    return _with_meters(lower, upper, holes.values, line, choice.climbing)


def _widths(fitted: Fitted, far: Bools) -> Doubles:
    """Half of the form's band [C, N], in deviations of the form."""
    tried = np.isfinite(fitted.long_gaps.width)
    width = np.where(tried, fitted.long_gaps.width, fitted.form_width)
    return np.where(far, np.maximum(width, fitted.form_width)[:, None], fitted.form_width[:, None])


def _not_too_near(fitted: Fitted, half: Doubles, distance: Doubles, by_form: Bools, units: Doubles) -> Doubles:
    """Halves of bands [C, N], widened in cells nearer to readings than all hidden cells were.

    A sensor that is slower than the table has readings many steps apart, and its hidden cells are as far from the next
    reading. Errors in between were never measured, nor was the similarity of readings so close together: a part of the
    difference between neighbours is noise, which does not shrink with the distance. The form's errors there are taken
    to be as large as those at hidden cells. Interpolation's are taken to include the noise of its readings.
    """
    nearer = distance < fitted.nearest[:, None]
    form, line = (each[:, None] * units[:, None] for each in (fitted.near_form, fitted.near_line))
    return np.where(nearer, np.where(by_form, np.maximum(half, form), np.hypot(half, line)), half)


def _line_widths(fitted: Fitted, holes: Holes) -> Doubles:
    """Half of the line's band [C, N], in the scales of `Lines` and the group's units."""
    wider = np.fmax(fitted.line_width, fitted.moving_width)
    return np.where(apart(holes.values, holes.observed), wider[:, None], fitted.line_width[:, None])


def _line_half(scale: Doubles, width: Doubles, holes: Holes) -> Doubles:
    """Half of the line's band [C, N]; across a meter's reset it is the range of the meter's readings."""
    with np.errstate(invalid="ignore"):
        half = scale * width
    values, seen = holes.values, holes.observed
    span = np.max(values, axis=1, initial=-np.inf, where=seen) - np.min(values, axis=1, initial=np.inf, where=seen)
    return np.where(np.isinf(scale), span[:, None], half)


def _ends(filled: Doubles, half: Doubles, made: Bools, limits: Limits, fitted: Fitted) -> tuple[Doubles, Doubles]:
    lower, upper = (np.where(made, limits.keep(filled + sign * half), filled) for sign in (-1.0, 1.0))
    places = np.arange(len(filled))[:, None]
    bounds = by_kind(lower, upper, filled, fitted.kinds, places, limits.lowest[:, None], limits.highest[:, None])
    lower, upper = (np.where(made, new, filled) for new in bounds)
    return lower, upper


def _with_meters(lower: Doubles, upper: Doubles, values: Doubles, line: Lines, cells: Bools) -> tuple[Doubles, Doubles]:
    """The bands [C, N]; in long gaps of meters they come from a trial on the meter's readings."""
    lower, upper = lower.copy(), upper.copy()
    for sensor in np.flatnonzero(cells.any(axis=1)):
        mine = cells[sensor]
        found = bounds(values[sensor], line.values[sensor], line.scale[sensor], mine)
        lower[sensor, mine], upper[sensor, mine] = (each[mine] for each in found)
    return lower, upper


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
