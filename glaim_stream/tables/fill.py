"""Fills the holes of long series offline: past and future of a hole are both known.

The closed form fills a hole, or interpolation if its error at hidden cells of the sensor is smaller. See
`glaim_stream.tables.fit` for the choice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.blas import one_thread
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.masks import runs
from glaim_stream.core.vocabulary import Method
from glaim_stream.form import LARGEST, ClosedForm, Kind, Limits, artefact, by_kind
from glaim_stream.tables.choice import Choice, choose
from glaim_stream.tables.fit import fit
from glaim_stream.tables.fitted import SensorFits
from glaim_stream.tables.groups import FilledGroup, Group, Progress, Result, Trainer
from glaim_stream.tables.holes import Holes
from glaim_stream.tables.lines import Lines, errors_across, lines
from glaim_stream.tables.resting import apart
from glaim_stream.tables.units import units_of
from glaim_stream.tables.work import Work

__all__ = ["FilledGroup", "Group", "Result", "fill_groups"]
Bools = NDArray[np.bool_]
SILENT = "the sensor has no reading"
UNUSABLE = f"the sensor has no finite reading below {LARGEST:g}, or none that is believed"
Doubles = NDArray[np.float64]


def fill_groups(
    groups: Sequence[Group],
    *,
    sensors: Sequence[str],
    form: ClosedForm | None = None,
    train: Trainer | None = None,
    max_gap: int | None = None,
    timezone: str = "UTC",
    plausibility: bool = True,
    work: Work | None = None,
    progress: Progress | None = None,
) -> Result:
    """Fill the holes of groups that share their sensors.

    Args:
        groups: groups on even grids with the same step.
        sensors: names of the C sensors, in the order of the groups' values.
        form: fitted closed form, whose sensors are matched by name; None fits one to these series.
        train: function that trains a network, which fills if it is better than the closed form; see `Trainer`.
        max_gap: longest filled gap in steps. By default gaps of up to 48 steps are filled, and longer ones whose error
            was small on hidden stretches as long.
        timezone: time zone of daily habits.
        plausibility: keep readings that stand apart from their neighbours out of the fill.
        work: how the groups are tried and filled.
        progress: called with the numbers of finished and of all trials and fills of groups.

    Raises:
        SettingsError: the groups have different sensors or steps, or `max_gap` is less than 1.
    """
    groups = [each.judged() if plausibility else replace(each, doubted=None) for each in groups]
    first, then = (None, None) if progress is None else _halves(progress)
    fitted = fit(groups, sensors=sensors, form=form, train=train, timezone=timezone, work=work, progress=first)
    only = fitted.forms[0] if fitted.forms else None
    filled = apply(fitted, groups, max_gap=max_gap, work=work, progress=then)
    return Result(
        form=only if isinstance(only, ClosedForm) and len(fitted.forms) == 1 else None,
        forms=fitted.forms,
        report=fitted.report,
        groups=filled,
        expected_error=fitted.expected_error,
        line_error=fitted.line_error,
        hidden=fitted.hidden,
        chosen=fitted.chosen,
        refused=fitted.refused,
        long_gap_error=fitted.long_gap_error,
    )


def _halves(progress: Progress) -> tuple[Progress, Progress]:
    """The progress of the trials and that of the fills, as one: both take about as long."""
    return lambda done, total: progress(done, 2 * total), lambda done, total: progress(total + done, 2 * total)


@one_thread()
def apply(
    fitted: SensorFits,
    groups: Sequence[Group],
    *,
    max_gap: int | None = None,
    work: Work | None = None,
    progress: Progress | None = None,
) -> tuple[FilledGroup, ...]:
    """Fill groups.

    Args:
        fitted: fit of the same sensors.
        groups: series on even grids with the step of the fit.
        max_gap: longest gap in steps that is filled; see `glaim_stream.tables.choice` for the default.
        work: how the groups are filled.
        progress: called with the numbers of finished and of all groups.

    Raises:
        SettingsError: `max_gap` is less than 1.
    """
    if max_gap is not None and max_gap < 1:
        raise SettingsError(f"expected a longest gap of at least 1 step, found {max_gap}")
    work = work or Work()
    fitted = replace(fitted, limits=fitted.limits.widened([each.believed for each in groups]))
    asked = [(group, max_gap) for group in groups]
    found = work.each("filling", _holes_filled, fitted, asked, progress)
    return tuple(FilledGroup.of(group, holes) for group, holes in zip(groups, found, strict=True))


def _holes_filled(fitted: SensorFits, group: Group, max_gap: int | None) -> artefact.Arrays:
    """Fill the holes of a group; return the arguments of `FilledGroup.of`."""
    holes = Holes.of(group, max_gap)
    line = lines(holes.values, holes.observed, fitted.kinds)
    mean, deviation = np.full(holes.values.shape, np.nan), np.full(holes.values.shape, np.nan)
    if fitted.forms and holes.missing.any():
        mean, deviation = fitted.answers(holes.values, int(group.times_ms[0]), holes.wanted, holes.long)
    choice = choose(fitted, group.name, holes, line, mean, deviation)
    limits = fitted.limits
    made = limits.keep(np.where(choice.by_form, mean, choice.line.values))
    filled = np.where(choice.filled, made, group.values)
    lower, upper = bands(fitted, holes, choice, filled, deviation, limits)
    method = choice.methods(fitted, holes.missing)
    left = _reasons(holes.missing & ~choice.filled, group, holes)
    cells = {"values": filled, "lower": lower, "upper": upper, "method": method}
    reasons = np.frombuffer(json.dumps(left).encode(), np.uint8)
    return {"left": reasons, **{name: each[holes.missing] for name, each in cells.items()}}


def _reasons(left: Bools, group: Group, holes: Holes) -> dict[str, int]:
    none = left & ~holes.observed.any(axis=1, keepdims=True)
    silent = none & np.isnan(group.values).all(axis=1, keepdims=True)
    unknown = left & ~none & holes.short
    long = left & ~none & ~holes.short
    because = "" if holes.stated else ", and no method is known to be accurate there"
    reasons = Counter(
        {
            SILENT: int(silent.sum()),
            UNUSABLE: int((none & ~silent).sum()),
            f"in a gap of more than {holes.longest} steps{because}": int(long.sum()),
            "no method has a value": int(unknown.sum()),
        }
    )
    return {reason: number for reason, number in reasons.items() if number}


def bands(
    fitted: SensorFits, holes: Holes, choice: Choice, filled: Doubles, deviation: Doubles, limits: Limits
) -> tuple[Doubles, Doubles]:
    """Return the lower and upper ends of the bands, float64 [C, N]; cells that are not filled keep their value.

    Args:
        fitted: fit of the sensors.
        holes: holes of the group.
        choice: method of each hole.
        filled: float64 [C, N], filled values in sensor units.
        deviation: float64 [C, N], deviations of the form's answers.
        limits: limits that the ends respect.
    """
    line, units = choice.line, units_of(holes.values, fitted.kinds, fitted.common_units)
    half = np.where(choice.by_form, deviation * _widths(fitted, holes.long), 0.0)
    half = np.where(choice.by_line, _line_half(line.scale, _line_widths(fitted, holes) * units[:, None], holes), half)
    half = _long_half(half, holes, choice, fitted)
    half = np.where(holes.missing, _not_too_near(fitted, half, holes.distance, choice.by_form, units), 0.0)
    lower, upper = _ends(filled, half, choice.filled, limits, fitted)
    return _with_meters(lower, upper, holes.values, line, choice.climbing)


def _widths(fitted: SensorFits, long: Bools) -> Doubles:
    """Half of the form's band [C, N], in deviations of the form."""
    tried = np.isfinite(fitted.long_gaps.width)
    width = np.where(tried, fitted.long_gaps.width, fitted.form_width)
    return np.where(long, np.maximum(width, fitted.form_width)[:, None], fitted.form_width[:, None])


def _not_too_near(fitted: SensorFits, half: Doubles, distance: Doubles, by_form: Bools, units: Doubles) -> Doubles:
    """Halves of bands [C, N], widened in cells nearer to readings than all hidden cells were.

    A sensor that is slower than the table has readings many steps apart, and its hidden cells are as far from the next
    reading. Errors in between were never measured, nor was the similarity of readings so close together: a part of the
    difference between neighbours is noise, which does not shrink with the distance. The form's errors there are taken
    to be as large as those at hidden cells. Interpolation's are taken to include the noise of its readings.
    """
    nearer = distance < fitted.nearest[:, None]
    form, line = (each[:, None] * units[:, None] for each in (fitted.near_form, fitted.near_line))
    return np.where(nearer, np.where(by_form, np.maximum(half, form), np.hypot(half, line)), half)


def _line_widths(fitted: SensorFits, holes: Holes) -> Doubles:
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


def _long_half(half: Doubles, holes: Holes, choice: Choice, fitted: SensorFits) -> Doubles:
    """Halves of bands [C, N]; on lines in long gaps they come from lines across stretches as long as the gap."""
    half = half.copy()
    ours = holes.long & choice.by_line & ~choice.climbing & np.isfinite(choice.line.scale)
    for sensor in np.flatnonzero(ours.any(axis=1)):
        row, kind = holes.values[sensor], fitted.kinds[sensor]
        for first, end in runs(np.isnan(row)):
            cells = np.flatnonzero(ours[sensor, first:end]) + first
            if len(cells):
                straight = choice.line.method[sensor, cells[0]] == Method.INTERPOLATION
                width = _width(row, int(end - first), kind, straight)
                if np.isfinite(width):
                    half[sensor, cells] = width * choice.line.scale[sensor, cells]
    return half


def _ends(filled: Doubles, half: Doubles, made: Bools, limits: Limits, fitted: SensorFits) -> tuple[Doubles, Doubles]:
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

    What a meter counted in a gap is known, but not its course: a flow that stays high for an hour takes the count
    further from the line than errors in short gaps suggest (bands that grow like those of a random walk held a sixth of
    the true values). So the line is tried on stretches of the meter's readings that are as long as the gap.

    The count always lies between the two readings. If there are too few readings for a trial, this range is the band.

    Args:
        row: float64 [N], readings in the meter's unit; NaN where missing.
        line: float64 [N], line between the readings.
        scale: float64 [N], scale of `Lines`.
        cells: bool [N], missing cells between two readings, the later one not smaller.
    """
    lower, upper = np.full(row.shape, np.nan), np.full(row.shape, np.nan)
    for first, end in runs(np.isnan(row)):
        if cells[first:end].any():
            gap = slice(first, end)
            half = _width(row, int(end - first), Kind.METER, True) * scale[gap]
            lower[gap] = np.maximum(line[gap] - half, row[first - 1])
            upper[gap] = np.minimum(line[gap] + half, row[end])
    return lower, upper


def _width(row: Doubles, length: int, kind: Kind | None, between: bool) -> float:
    """Half of the 90 % band of lines across a gap of `length` steps, in scales of `Lines`; infinite if unknown."""
    errors, scales = errors_across(row, length, kind, between=between)
    return float(np.quantile(errors / scales, 0.9)) if len(errors) else np.inf
