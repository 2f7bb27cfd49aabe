"""Fills the holes of series by what was found out about their sensors.

A gap of up to `LONGEST_GAP` steps is filled; see `glaim_stream.tables.far_cells` for its cells far from readings. In a
longer one, the closed form fills the cells about which the other sensors, or readings nearby, tell something: where its
deviation is well below that of the sensor's readings, and far from them only if a trial of such gaps showed errors well
below those of the sensor's mean. The others are left null, since a value there would be the sensor's mean in disguise.
A meter that was not reset in the gap is on the line between its two readings. A stated longest gap replaces the rules
of longer gaps: gaps of up to it are filled in full, and longer ones are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.errors import SettingsError
from glaim_stream.imputers.gaussian.form import LARGEST
from glaim_stream.imputers.gaussian.kind_bands import by_kind
from glaim_stream.imputers.gaussian.kinds import Kind, are
from glaim_stream.imputers.limits import Limits
from glaim_stream.tables import meters
from glaim_stream.tables.far_cells import better_by_line
from glaim_stream.tables.fitted import Fitted
from glaim_stream.tables.groups import FilledGroup, Group, Progress, usable
from glaim_stream.tables.lines import Lines, gap_lengths, lines, nearest, runs
from glaim_stream.tables.long_gaps import KNOWN, LONGEST_GAP
from glaim_stream.tables.units import units_of
from glaim_stream.vocabulary import Method

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]

_MEAN_OF_NINETY = 0.485  # a normal distribution's mean absolute error, in halves of its 90 % band

SILENT = "the sensor has no reading"
UNUSABLE = f"the sensor has no finite reading below {LARGEST:g}, or none that is believed"


def apply(
    fitted: Fitted, groups: Sequence[Group], *, max_gap: int | None = None, progress: Progress | None = None
) -> tuple[FilledGroup, ...]:
    """Fill groups.

    Args:
        fitted: of the same sensors.
        groups: on even grids of the step of the fit.
        max_gap: longest gap in steps that is filled; see the module for the default.
        progress: called with the name of the task, the number of its parts that are done, and of all its parts.

    Raises:
        SettingsError: `max_gap` is less than 1.
    """
    if max_gap is not None and max_gap < 1:
        raise SettingsError(f"expected a longest gap of at least 1 step, found {max_gap}")
    out = []
    for group in groups:
        out.append(_filled(fitted, group, max_gap))
        if progress is not None:
            progress("filling", len(out), len(groups))
    return tuple(out)


def _filled(fitted: Fitted, group: Group, max_gap: int | None) -> FilledGroup:
    values = group.believed
    observed = ~np.isnan(values)
    holes = np.isnan(group.values)
    gaps = gap_lengths(np.isnan(usable(group.values)))
    longest = LONGEST_GAP if max_gap is None else max_gap
    short = gaps <= longest
    line = lines(values, observed, fitted.kinds)
    mean, deviation = np.full(values.shape, np.nan), np.full(values.shape, np.nan)
    if fitted.forms and holes.any():
        wanted = holes & short if max_gap is not None else holes
        mean, deviation = fitted.answers(values, int(group.times_ms[0]), wanted)
    known: Bools = np.isfinite(mean)
    distance = nearest(observed)
    far = fitted.long_gaps.far(distance) & ~short
    with np.errstate(invalid="ignore"):
        told = known & (deviation < KNOWN * fitted.spread[:, None])
    units = units_of(values, fitted.kinds, fitted.common_units)
    usual = fitted.by_form_in(group.name)[:, None]
    lone = holes & known & short & usual & fitted.silent_windows(distance)
    climbing = _between_meter_readings(fitted, line) & np.where(short, _gaps_with(lone, observed), max_gap is None)
    drawn = np.isfinite(line.values) & (short | climbing)
    chosen = usual & ~_better_by_line(fitted, values, lone, deviation, told)
    told &= ~(far & fitted.long_gaps.hopeless[:, None]) & (max_gap is None)
    by_form: Bools = known & np.where(short, chosen | ~drawn, told) & ~climbing & holes
    by_line: Bools = holes & drawn & ~by_form
    filled_cells: Bools = by_form | by_line
    limits = fitted.limits.widened([values])
    half = np.where(by_form, deviation * _widths(fitted, far), 0.0)
    half = np.where(by_line, _line_half(line.scale, fitted.line_width * units, values), half)
    half = np.where(holes, _not_too_near(fitted, half, distance, by_form, units), 0.0)
    filled = limits.keep(np.where(by_form, mean, line.values))
    filled = np.where(filled_cells, filled, group.values)
    lower, upper = _band(filled, half, filled_cells, limits, fitted)
    lower, upper = _with_meters(lower, upper, values, line, climbing & by_line)
    method = np.where(holes, np.uint8(Method.NONE), np.uint8(Method.OBSERVED))
    method = np.where(by_line, line.method, method)
    method = np.where(by_form, np.where(fitted.by_form, fitted.methods, fitted.form_methods)[:, None], method)
    left = _reasons(holes & ~filled_cells, group, observed, short, longest, max_gap)
    return FilledGroup(group.name, filled, lower, upper, method.astype(np.uint8), left, group.doubts)


def _between_meter_readings(fitted: Fitted, line: Lines) -> Bools:
    """Cells [C, N] of meters between two readings of which the later one is not smaller.

    A form knows nothing of the total far from both readings: its answers fall, and jump where the gap ends.
    """
    return np.asarray(are(fitted.kinds, Kind.METER)[:, None] & (line.method == Method.INTERPOLATION))


def _better_by_line(fitted: Fitted, values: Doubles, lone: Bools, deviation: Doubles, told: Bools) -> Bools:
    """Cells [C, N] of gaps that are filled, among those without readings nearby, that the line fills better."""
    tried = fitted.long_gaps
    width = np.fmax(fitted.form_width, tried.width)
    width = np.where(np.isinf(tried.error), np.inf, width)  # of a trial with too few readings
    return better_by_line(values, lone, deviation * width[:, None] * _MEAN_OF_NINETY, told & ~tried.hopeless[:, None])


def _gaps_with(cells: Bools, observed: Bools) -> Bools:
    """Cells [C, N] of the gaps that have some of these cells."""
    out = np.zeros_like(cells)
    for sensor in np.flatnonzero(cells.any(axis=1)):
        for first, end in zip(*runs(~observed[sensor]), strict=True):
            out[sensor, first:end] = cells[sensor, first:end].any()
    return out


def _widths(fitted: Fitted, far: Bools) -> Doubles:
    """Half of the form's band in its deviations, [C, N]."""
    tried = np.isfinite(fitted.long_gaps.width)
    width = np.where(tried, fitted.long_gaps.width, fitted.form_width)
    return np.where(far, np.maximum(width, fitted.form_width)[:, None], fitted.form_width[:, None])


def _not_too_near(fitted: Fitted, half: Doubles, distance: Doubles, by_form: Bools, units: Doubles) -> Doubles:
    """Halves of bands [C, N], with those of cells nearer to readings than all hidden cells were as wide as need be.

    The readings of a sensor that is slower than the table are so many steps apart, and so are hidden ones from the
    next. Nobody has seen the errors between them, nor how alike readings so near to one another are: a part of what
    neighbours differ by is noise, which does not shrink with the distance. The form's errors there are taken to be as
    large as those at hidden cells, and interpolation's to have the noise of its readings.
    """
    nearer = distance < fitted.nearest[:, None]
    form, line = (each[:, None] * units[:, None] for each in (fitted.near_form, fitted.near_line))
    return np.where(nearer, np.where(by_form, np.maximum(half, form), np.hypot(half, line)), half)


def _line_half(scale: Doubles, width: Doubles, values: Doubles) -> Doubles:
    """Half of the line's band, [C, N]; across a meter's reset as much as the range of its readings [C, N]."""
    with np.errstate(invalid="ignore"):
        half = scale * width[:, None]
    seen = ~np.isnan(values)
    span = np.max(values, axis=1, initial=-np.inf, where=seen) - np.min(values, axis=1, initial=np.inf, where=seen)
    return np.where(np.isinf(scale), span[:, None], half)


def _band(filled: Doubles, half: Doubles, made: Bools, limits: Limits, fitted: Fitted) -> tuple[Doubles, Doubles]:
    lower, upper = (np.where(made, limits.keep(filled + sign * half), filled) for sign in (-1.0, 1.0))
    places = np.arange(len(filled))[:, None]
    bounds = by_kind(lower, upper, filled, fitted.kinds, places, limits.lowest[:, None], limits.highest[:, None])
    lower, upper = (np.where(made, new, filled) for new in bounds)
    return lower, upper


def _with_meters(lower: Doubles, upper: Doubles, values: Doubles, line: Lines, cells: Bools) -> tuple[Doubles, Doubles]:
    """The bands [C, N], in cells of meters' long gaps by what their readings say of such gaps."""
    lower, upper = lower.copy(), upper.copy()
    for sensor in np.flatnonzero(cells.any(axis=1)):
        mine = cells[sensor]
        found = meters.bounds(values[sensor], line.values[sensor], line.scale[sensor], mine)
        lower[sensor, mine], upper[sensor, mine] = (each[mine] for each in found)
    return lower, upper


def _reasons(
    left: Bools, group: Group, observed: Bools, short: Bools, longest: int, max_gap: int | None
) -> dict[str, int]:
    none = left & ~observed.any(axis=1, keepdims=True)
    silent = none & np.isnan(group.values).all(axis=1, keepdims=True)
    unknown = left & ~none & short
    long = left & ~none & ~short
    because = "" if max_gap is not None else ", and the other sensors tell too little about it"
    reasons = Counter(
        {
            SILENT: int(silent.sum()),
            UNUSABLE: int((none & ~silent).sum()),
            f"in a gap of more than {longest} steps{because}": int(long.sum()),
            "no method has a value": int(unknown.sum()),
        }
    )
    return {reason: number for reason, number in reasons.items() if number}
