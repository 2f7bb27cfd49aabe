"""Fits series before they are filled: a closed form, limits, and the better method for each sensor.

Some readings are hidden on purpose, and the form is fitted without them. Their errors decide for each sensor between
form and interpolation, and are the errors to expect. The fill itself uses all readings.

The form leaves out sensors that are constant or have hardly any readings; interpolation fills their holes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.blas import one_thread
from glaim_stream.core.errors import ModelError, SettingsError, listed
from glaim_stream.form import ClosedForm, Kind, Limits, Report, are, artefact, differences, limits_of, nearest, range_of
from glaim_stream.tables.closed_form import clusters_of, fit_form, spread_of
from glaim_stream.tables.fitted import SensorFits, kinds_of
from glaim_stream.tables.groups import Form, Group, Progress, Trainer
from glaim_stream.tables.lines import DRAWN, lines
from glaim_stream.tables.long_gaps import LONGEST_GAP, LongGaps, long_cells, own_gaps, tried
from glaim_stream.tables.resting import with_moves
from glaim_stream.tables.units import common_units, units_of
from glaim_stream.tables.work import Work

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]

_LEAST_HIDDEN = 20  # hidden cells whose errors give a band
_NINETY = 1.6449  # half of a normal distribution's 90 % band, in deviations
_LEAST_OF_GROUP = 10  # hidden cells with which a group in another unit chooses for itself
_FEW = 0.01  # share of the hidden cells nearer than `Fitted.nearest`: so few tell nothing
_WIDTHS = (0.25, 4.0)  # factors of the form's own band


@one_thread()
def fit(
    groups: Sequence[Group],
    *,
    sensors: Sequence[str],
    form: ClosedForm | None = None,
    train: Trainer | None = None,
    timezone: str = "UTC",
    work: Work | None = None,
    progress: Progress | None = None,
) -> SensorFits:
    """Fit forms and limits to series, and choose methods.

    Args:
        groups: groups on even grids with the same step.
        sensors: names of the C sensors, in the order of the groups' values.
        form: fitted closed form, whose sensors are matched by name; None fits one.
        train: function that trains a network beside the closed form, on the readings that are not hidden.
        timezone: time zone of daily habits.
        work: how the groups are tried.
        progress: called with the numbers of finished and of all groups.

    Raises:
        SettingsError: the groups do not match each other or the form.
    """
    step_ms = _step_of(groups, sensors)
    if form is not None:
        _require_fitting(form, sensors, step_ms)
    series = [each.believed for each in groups]
    hidden = [own_gaps(~np.isnan(each), LONGEST_GAP, number) for number, each in enumerate(series)]
    long = [long_cells(each) for each in groups]
    known = [np.where(cells, np.nan, values) for values, cells in zip(series, hidden, strict=True)]
    without_long = [_without(values, cells) for values, cells in zip(known, long, strict=True)]
    limits = limits_of(series) if series else Limits(np.zeros(len(sensors)), np.zeros(len(sensors)))
    report, refused = None, ""
    forms: list[Form] = [] if form is None else [form]
    trial = forms
    some_long = any(each.any() for each in long)
    if form is None:
        clusters = clusters_of(known) if known else []
        forms, report, refused = _fit_forms(groups, known, clusters, sensors, step_ms, timezone)
        trial = forms
        if some_long:
            trial, _, _ = _fit_forms(groups, without_long, clusters, sensors, step_ms, timezone)
        if train is not None and forms and step_ms is not None:
            network = _trained(train, groups, without_long, forms, sensors)
            forms, trial = ([*each, *([] if network is None else [network])] for each in (forms, trial))
    kinds = kinds_of(forms, sensors)
    long_gaps = LongGaps.untried(len(sensors))
    if trial and some_long:
        long_gaps = tried(trial, sensors, kinds, groups, long, limits)
    del known, without_long
    least, most = range_of(series, len(sensors))
    limits = limits.of_circles(are(kinds, Kind.ANGLE), least, most).of_states(are(kinds, Kind.STATE), least, most)
    units = common_units(series, kinds)
    of_groups = [units_of(values, kinds, units) for values in series]
    line_width = _line_widths(series, of_groups, len(sensors))
    unscored = SensorFits(
        sensors=tuple(sensors),
        step_ms=step_ms,
        forms=tuple(forms),
        report=report if len(forms) == 1 else None,
        refused="" if forms else refused,
        by_form=np.array([kind is not None for kind in kinds], np.bool_),
        by_line=frozenset(),
        limits=limits,
        spread=spread_of(series, len(sensors)),
        form_width=np.full(len(sensors), _NINETY),
        nearest=np.zeros(len(sensors)),
        near_form=np.zeros(len(sensors)),
        near_line=_noise(series, of_groups, kinds),
        line_width=line_width,
        moving_width=line_width,
        common_units=units,
        form_error=np.full(len(sensors), np.nan),
        line_errors=np.full(len(sensors), np.nan),
        cells=np.zeros(len(sensors), np.int64),
        trained=np.isin(sensors, forms[-1].sensors if forms and not isinstance(forms[-1], ClosedForm) else ()),
        long_gaps=long_gaps,
    )
    return with_moves(_scored(unscored, groups, hidden, work or Work(), progress), series, of_groups)


def _fit_forms(
    groups: Sequence[Group],
    known: Sequence[Doubles],
    clusters: Sequence[Sequence[int]],
    sensors: Sequence[str],
    step_ms: int | None,
    timezone: str,
) -> tuple[list[Form], Report | None, str]:
    """Fit a closed form to each cluster of sensors; also return the last report, and the reason of a failed fit."""
    forms: list[Form] = []
    report, refused = None, ""
    for places in clusters:
        try:
            found, report = fit_form(
                groups, [each[places] for each in known], [sensors[place] for place in places], step_ms, timezone
            )
            forms.append(found)
        except ModelError as error:
            refused = str(error)
    return forms, report, refused


def _without(values: Doubles, cells: Bools) -> Doubles:
    """Readings [C, N] without some cells; the array itself if there are none."""
    return np.where(cells, np.nan, values) if cells.any() else values


def _trained(
    train: Trainer, groups: Sequence[Group], known: Sequence[Doubles], forms: Sequence[Form], sensors: Sequence[str]
) -> Form | None:
    """Train on plain numbers among the forms' sensors; a value between two states or directions means nothing."""
    kinds = {name: kind for form in forms for name, kind in zip(form.sensors, form.kinds, strict=True)}
    places = [place for place, name in enumerate(sensors) if kinds.get(name) in (Kind.NUMBER, Kind.CARRIED)]
    if not places:
        return None
    series = [replace(group, values=values[places], doubted=None) for group, values in zip(groups, known, strict=True)]
    return train(series, [sensors[place] for place in places])


def _step_of(groups: Sequence[Group], sensors: Sequence[str]) -> int | None:
    if len(set(sensors)) != len(sensors):
        raise SettingsError("expected sensors of different names, found one name twice")
    steps = set()
    for group in groups:
        if group.values.shape != (len(sensors), len(group.times_ms)):
            raise SettingsError(
                f"group {group.name}: expected values of {len(sensors)} sensors at {len(group.times_ms)} times, found "
                f"an array of shape {group.values.shape}"
            )
        differences = np.unique(np.diff(group.times_ms))
        if len(differences) > 1 or (len(differences) and differences[0] < 1):
            raise SettingsError(f"group {group.name}: expected times on an even, ascending grid")
        steps.update(differences.tolist())
    if len(steps) > 1:
        raise SettingsError(f"expected groups of the same step, found steps of {listed(sorted(steps))} ms")
    return steps.pop() if steps else None


def _require_fitting(form: ClosedForm, sensors: Sequence[str], step_ms: int | None) -> None:
    if not set(form.sensors) & set(sensors):
        raise SettingsError(
            f"the closed form has none of the table's columns: it has {listed(form.sensors)}, found {listed(sensors)}"
        )
    if step_ms is not None and form.step_ms != step_ms:
        raise SettingsError(f"the closed form has a step of {form.step_ms:,} ms, found a table of {step_ms:,} ms")


def _line_widths(series: Sequence[Doubles], units: Sequence[Doubles], sensors: int) -> Doubles:
    """Bands of interpolation [C] in units of the groups, from readings between two others; NaN without any."""
    out = np.full(sensors, np.nan)
    for place in range(sensors):
        rows = _readings(series, units, place)
        errors = [np.abs(each[1:-1] - (each[2:] + each[:-2]) / 2) / np.sqrt(0.5) for each in rows if len(each) > 2]
        if errors:
            out[place] = np.quantile(np.concatenate(errors), 0.9)
    return out


def _readings(series: Sequence[Doubles], units: Sequence[Doubles], place: int | np.signedinteger) -> list[Doubles]:
    """Readings of a sensor in each group, in the group's unit."""
    return [values[place][~np.isnan(values[place])] / unit[place] for values, unit in zip(series, units, strict=True)]


def _noise(series: Sequence[Doubles], units: Sequence[Doubles], kinds: Sequence[Kind | None]) -> Doubles:
    """Half of a 90 % band around lines between arbitrarily close readings [C], in units of the groups.

    At half the distance, a sensor's own moves have half the mean square and its noise has the same one. So errors of
    lines between every second and every fourth reading tell moves from noise. The result is 0 where there are too few
    readings, and for states, directions and meters.
    """
    out = np.zeros(len(kinds))
    for place in np.flatnonzero(~are(kinds, Kind.STATE, Kind.ANGLE, Kind.METER)):
        rows = [each for each in _readings(series, units, place) if len(each) > _LEAST_HIDDEN]
        if rows:
            near, far = (
                np.quantile(np.concatenate([np.abs(x[n:-n] - (x[2 * n :] + x[: -2 * n]) / 2) for x in rows]), 0.9)
                for n in (1, 2)
            )
            out[place] = np.sqrt(max(0.0, min(2 * near**2 - far**2, near**2)))
    return out


def _scored(
    fitted: SensorFits,
    groups: Sequence[Group],
    hidden: Sequence[Bools],
    work: Work,
    progress: Progress | None,
) -> SensorFits:
    """Fill the hidden cells by both methods, and choose."""
    if not groups:
        return fitted
    asked = list(zip(groups, hidden, strict=True))
    found = work.each("trying", _trial, fitted, asked, progress)
    number = np.repeat(np.arange(len(found)), [len(each["place"]) for each in found])
    place, *rest = (np.concatenate([each[name] for each in found]) for name in found[0])
    return _by_group(_chosen(fitted, place, *rest), [each.name for each in groups], place, number, *rest[1:3])


def _trial(fitted: SensorFits, group: Group, cells: Bools) -> artefact.Arrays:
    """Fill hidden cells of a group, bool [C, N], by both methods; return the arguments of `_chosen`."""
    values = group.believed
    known = np.where(cells, np.nan, values)
    line = lines(known, ~np.isnan(known), fitted.kinds)
    mean, spread = np.full(values.shape, np.nan), np.full(values.shape, np.nan)
    if fitted.forms and cells.any():
        mean, spread = fitted.answers(known, int(group.times_ms[0]), cells, np.zeros_like(cells))
    scored = cells & np.isfinite(line.values)
    mean = fitted.limits.keep(np.where(np.isnan(mean), line.values, mean))
    form_error, line_error = (np.abs(differences(fitted.kinds, each, values)) for each in (mean, line.values))
    place = np.nonzero(scored)[0]
    unit = units_of(values, fitted.kinds, fitted.common_units)[place]
    cells_of = {"form_error": form_error, "line_error": line_error, "deviation": spread, "scale": line.scale}
    cells_of["distance"] = nearest(~np.isnan(known))
    return {"place": place, "unit": unit, **{name: each[scored] for name, each in cells_of.items()}}


def _chosen(
    fitted: SensorFits,
    place: Ints,
    unit: Doubles,
    form_error: Doubles,
    line_error: Doubles,
    deviation: Doubles,
    scale: Doubles,
    distance: Doubles,
) -> SensorFits:
    """Choose methods and widths of bands by the errors at hidden cells, all [n]; `unit` is that of a cell's group."""
    count = len(fitted.sensors)
    by_form, form_width = fitted.by_form.copy(), fitted.form_width.copy()
    line_width, moving_width = fitted.line_width.copy(), fitted.moving_width.copy()
    nearest, near_form = np.zeros(count), np.zeros(count)
    errors, line_errors = np.full(count, np.nan), np.full(count, np.nan)
    cells = np.zeros(count, np.int64)
    for sensor in range(count):
        mine = place == sensor
        cells[sensor] = mine.sum()
        if not mine.any():
            continue
        errors[sensor], line_errors[sensor] = form_error[mine].mean(), line_error[mine].mean()
        same = fitted.kinds[sensor] in DRAWN
        by_form[sensor] &= not same and bool(errors[sensor] <= line_errors[sensor])
        if cells[sensor] >= _LEAST_HIDDEN:
            nearest[sensor] = np.quantile(distance[mine], _FEW, method="lower")
            near_form[sensor] = np.quantile(form_error[mine] / unit[mine], 0.9)
            usable_line = mine & (scale > 0) & np.isfinite(scale)
            if usable_line.any():
                ratios = line_error[usable_line] / unit[usable_line] / scale[usable_line]
                moving_width[sensor] = np.quantile(ratios, 0.9)
                # A valve that rarely moves may still have moved.
                line_width[sensor] = moving_width[sensor] or np.sqrt(np.mean(ratios**2))
            usable_form = mine & (deviation > 0)
            if usable_form.sum() >= _LEAST_HIDDEN:
                ratio = float(np.quantile(form_error[usable_form] / deviation[usable_form], 0.9))
                form_width[sensor] = np.clip(ratio, _WIDTHS[0] * _NINETY, _WIDTHS[1] * _NINETY)
    return replace(
        fitted,
        by_form=by_form,
        form_width=form_width,
        nearest=nearest,
        near_form=near_form,
        line_width=line_width,
        moving_width=moving_width,
        form_error=errors,
        line_errors=line_errors,
        cells=cells,
    )


def _by_group(
    fitted: SensorFits, names: Sequence[str], place: Ints, number: Ints, form_error: Doubles, line_error: Doubles
) -> SensorFits:
    """Choose again for sensors whose groups have different units, by the errors at hidden cells, all [n].

    The form is fitted to all groups together, so its errors are large in a small group with another unit. There the
    line fills, and the other groups still choose among themselves. Groups with few hidden cells follow the others.

    Args:
        fitted: choice by all cells together.
        names: names of the groups.
        place: index of each cell's sensor.
        number: index of each cell's group.
        form_error: error of the form in each cell, sensor units.
        line_error: error of the line in each cell, sensor units.
    """
    by_form, by_line = fitted.by_form.copy(), set()
    able = ~are(fitted.kinds, None, *DRAWN)
    for sensor in np.flatnonzero(able & ~np.isnan(fitted.common_units)):
        mine = place == sensor
        count, form, line = (
            np.bincount(number[mine], weights, len(names)) for weights in (None, form_error[mine], line_error[mine])
        )
        for group in np.flatnonzero((count >= _LEAST_OF_GROUP) & (form > line)).tolist():
            by_line.add((names[group], fitted.sensors[sensor]))
        gains = np.divide(line - form, line + form, out=np.zeros(len(names)), where=line + form > 0)
        by_form[sensor] = (count * gains).sum() >= 0.0
    return replace(fitted, by_form=by_form, by_line=frozenset(by_line))
