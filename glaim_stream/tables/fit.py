"""What is found out about series before they are filled: a closed form, limits, and the better method by sensor.

Some readings are hidden on purpose, and the form is fitted without them. Their errors decide for each sensor between
form and interpolation, and are the errors to expect. The fill itself uses all readings.

Sensors that are constant, or have hardly a reading, are no part of the form; interpolation fills their holes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.errors import ModelError, SettingsError, listed
from glaim_stream.imputers.gaussian.fit import fit as fit_form
from glaim_stream.imputers.gaussian.form import ClosedForm
from glaim_stream.imputers.gaussian.kinds import Kind
from glaim_stream.imputers.gaussian.phase import DAY_MS, phase_for
from glaim_stream.imputers.gaussian.report import Report
from glaim_stream.imputers.limits import Limits, limits_of
from glaim_stream.tables.central import answers
from glaim_stream.tables.clusters import clusters_of
from glaim_stream.tables.groups import Form, Group, Progress, Trainer
from glaim_stream.tables.hidden import hidden_cells
from glaim_stream.tables.lines import lines
from glaim_stream.vocabulary import METHODS, Method

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]

# Of an offline fill, past and future are known, so short windows do: at 800 to 3,000 rows, windows of 16 to 32 steps
# have half the error of 48, whose covariance has more numbers than so few rows determine. At 10,000 rows of 12 sensors,
# 32, 48 and 96 have the same error within 2 %, and 32 take an eighth of the time of 96.
_LONGEST_WINDOW = 32  # steps
_SHORTEST_WINDOW = 8
_USUAL_WINDOW = 12  # at least, as far as the rows suffice
_ROWS_A_STEP = 40
_MOST_WINDOW_CELLS = 400  # C * T of windows of many sensors, as long as they have the usual steps
LONGEST_GAP = 48  # steps; a gap of up to as many is filled by default
_WINDOWS = 4  # of rows: with fewer, the fit has no validation
_LEAST_READINGS = 16  # of a sensor of the form
_MOST_CELLS = 20_000_000  # of the series that a form is fitted to: 160 MB
_LEAST_HIDDEN = 20  # cells from which errors give a band
_NINETY = 1.6449  # deviations to each side that a normal distribution's 90 % band has
_WIDTHS = (0.25, 4.0)  # factors of the form's own band


@dataclass(frozen=True)
class Fitted:
    """What a fill needs to know of C sensors.

    step_ms: of the series; None where no group has two steps.
    forms: of clusters of sensors; one, as a rule. A later one fills the sensors that it shares with an earlier one.
    trained: bool [C], sensors that a network fills.
    report: of the fit of a single form.
    refused: why there is no form; empty if there is one.
    by_form: bool [C], sensors that the form fills.
    limits: that filled values respect.
    spread: float64 [C], deviation of each sensor's readings around their mean.
    form_width: float64 [C], half of the 90 % band in deviations of the form.
    line_width: float64 [C], half of the 90 % band of interpolation, in the scales of `Lines`.
    form_error, line_errors: float64 [C], mean absolute errors at hidden cells; NaN without one.
    cells: int64 [C], number of hidden cells.
    """

    sensors: tuple[str, ...]
    step_ms: int | None
    forms: tuple[Form, ...]
    report: Report | None
    refused: str
    by_form: Bools
    limits: Limits
    spread: Doubles
    form_width: Doubles
    line_width: Doubles
    form_error: Doubles
    line_errors: Doubles
    cells: Ints
    trained: Bools

    @property
    def expected_error(self) -> dict[str, float]:
        """Mean absolute error of the chosen method by sensor; sensors without a hidden cell are left out."""
        chosen = np.where(self.by_form, self.form_error, self.line_errors)
        return {name: float(error) for name, error in zip(self.sensors, chosen, strict=True) if np.isfinite(error)}

    @property
    def line_error(self) -> dict[str, float]:
        """That of interpolation."""
        return {
            name: float(error) for name, error in zip(self.sensors, self.line_errors, strict=True) if np.isfinite(error)
        }

    @property
    def hidden(self) -> dict[str, int]:
        """Number of hidden cells by sensor."""
        return dict(zip(self.sensors, self.cells.tolist(), strict=True))

    @property
    def chosen(self) -> dict[str, str]:
        """Name of the method that fills each sensor's holes, as a rule."""
        return {name: METHODS[code] for name, code in zip(self.sensors, self.methods.tolist(), strict=True)}

    @property
    def methods(self) -> NDArray[np.uint8]:
        """Code of the method that fills each sensor's holes, as a rule, uint8 [C]."""
        out = np.full(len(self.sensors), Method.INTERPOLATION, np.uint8)
        kinds = self.kinds
        for place in np.flatnonzero(self.by_form):
            carried = kinds[self.sensors[place]] in (Kind.STATE, Kind.ANGLE, Kind.CARRIED)
            out[place] = Method.LAST_VALUE if carried else self.form_methods[place]
        return out

    @property
    def form_methods(self) -> NDArray[np.uint8]:
        """Code of the form of each sensor, uint8 [C]."""
        return np.where(self.trained, np.uint8(Method.MODEL), np.uint8(Method.GAUSSIAN))

    @property
    def kinds(self) -> dict[str, Kind]:
        """Kinds of the sensors of the forms."""
        return {name: kind for form in self.forms for name, kind in zip(form.sensors, form.kinds, strict=True)}

    def answers(self, values: Doubles, start_ms: int, wanted: Bools) -> tuple[Doubles, Doubles]:
        """Return means and deviations of the forms [C, N] in cells that are wanted; NaN elsewhere, and if declined.

        Args:
            values: float64 [C, N], sensor units; NaN where missing.
            start_ms: time of the first step.
            wanted: bool [C, N].
        """
        places = {name: place for place, name in enumerate(self.sensors)}
        mean, deviation = np.full(values.shape, np.nan), np.full(values.shape, np.nan)
        owner = {name: number for number, form in enumerate(self.forms) for name in form.sensors}
        for number, form in enumerate(self.forms):
            rows = [row for row, name in enumerate(form.sensors) if name in places]
            ours = [places[form.sensors[row]] for row in rows]
            own = np.array([owner[form.sensors[row]] == number for row in rows], np.bool_)[:, None]
            if (wanted[ours] & own).any():
                known = np.full((len(form.sensors), values.shape[1]), np.nan)
                asked = np.zeros(known.shape, np.bool_)
                known[rows], asked[rows] = values[ours], wanted[ours] & own
                found = answers(form, known, start_ms, asked)
                mean[ours] = np.where(own, found[0][rows], mean[ours])
                deviation[ours] = np.where(own, found[1][rows], deviation[ours])
        return mean, deviation


def fit(
    groups: Sequence[Group],
    *,
    sensors: Sequence[str],
    form: ClosedForm | None = None,
    train: Trainer | None = None,
    timezone: str = "UTC",
    progress: Progress | None = None,
) -> Fitted:
    """Find out what a fill needs to know.

    Args:
        groups: on even grids of the same step.
        sensors: names of the C sensors, in the order of the groups' values.
        form: fitted before, whose sensors are matched by name; None fits one.
        train: trains a network beside the closed form, on the readings that are not hidden to compare the methods.
        timezone: zone of the habits of the day.
        progress: called with the name of the task, the number of its parts that are done, and of all its parts.

    Raises:
        SettingsError: the groups do not fit one another, or the form.
    """
    step_ms = _step_of(groups, sensors)
    if form is not None:
        _require_fitting(form, sensors, step_ms)
    series = [each.believed for each in groups]
    observed = [~np.isnan(each) for each in series]
    hidden = [hidden_cells(each, LONGEST_GAP, number) for number, each in enumerate(observed)]
    report, refused = None, ""
    forms: list[Form] = [] if form is None else [form]
    if form is None:
        known = [np.where(cells, np.nan, values) for values, cells in zip(series, hidden, strict=True)]
        clusters = clusters_of(known) if known else []
        for number, places in enumerate(clusters):
            if progress is not None:
                progress("fitting", number, len(clusters))
            try:
                found, report = _fit_form(
                    groups, [each[places] for each in known], [sensors[place] for place in places], step_ms, timezone
                )
                forms.append(found)
            except ModelError as error:
                refused = str(error)
        if progress is not None:
            progress("fitting", len(clusters), len(clusters))
        if train is not None and forms and step_ms is not None:
            network = _trained(train, groups, known, forms, sensors)
            forms += [] if network is None else [network]
    spread = _spread(series, len(sensors))
    unscored = Fitted(
        sensors=tuple(sensors),
        step_ms=step_ms,
        forms=tuple(forms),
        report=report if len(forms) == 1 else None,
        refused="" if forms else refused,
        by_form=np.array([any(name in each.sensors for each in forms) for name in sensors], np.bool_),
        limits=limits_of(series) if series else Limits(np.zeros(len(sensors)), np.zeros(len(sensors))),
        spread=spread,
        form_width=np.full(len(sensors), _NINETY),
        line_width=_line_widths(series, len(sensors)),
        form_error=np.full(len(sensors), np.nan),
        line_errors=np.full(len(sensors), np.nan),
        cells=np.zeros(len(sensors), np.int64),
        trained=np.isin(sensors, forms[-1].sensors if forms and not isinstance(forms[-1], ClosedForm) else ()),
    )
    return _scored(unscored, groups, series, hidden, progress)


def _trained(
    train: Trainer, groups: Sequence[Group], known: Sequence[Doubles], forms: Sequence[Form], sensors: Sequence[str]
) -> Form | None:
    """Train on the sensors of closed forms that are numbers; a value between two states or directions means nothing."""
    kinds = {name: kind for form in forms for name, kind in zip(form.sensors, form.kinds, strict=True)}
    places = [place for place, name in enumerate(sensors) if kinds.get(name) in (Kind.NUMBER, Kind.CARRIED)]
    if not places:
        return None
    series = [replace(group, values=values[places], doubted=None) for group, values in zip(groups, known, strict=True)]
    return train(series, [sensors[place] for place in places])


def window_length(groups: Sequence[Group], sensors: int) -> int:
    """Return the steps of a window for series of groups; 0 where they are too short."""
    rows = [len(each.times_ms) for each in groups]
    longest = min(_LONGEST_WINDOW, max(_USUAL_WINDOW, _MOST_WINDOW_CELLS // max(sensors, 1)))
    length = min(max(_USUAL_WINDOW, sum(rows) // _ROWS_A_STEP), longest, max(rows, default=0) // _WINDOWS)
    return length if length >= _SHORTEST_WINDOW else 0


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


def _rows(groups: Sequence[Group], step_ms: int | None) -> int:
    return max((len(each.times_ms) for each in groups), default=0) if step_ms else 0


def _fit_form(
    groups: Sequence[Group],
    series: Sequence[Doubles],
    sensors: Sequence[str],
    step_ms: int | None,
    timezone: str,
) -> tuple[ClosedForm, Report]:
    length = window_length(groups, len(sensors))
    if not length or step_ms is None:
        raise ModelError(f"a closed form needs {_WINDOWS * _SHORTEST_WINDOW} rows, found {_rows(groups, step_ms)}")
    spread = _spread(series, len(sensors))
    readings = sum((~np.isnan(each)).sum(axis=1) for each in series)
    places = np.flatnonzero((readings >= _LEAST_READINGS) & (spread > 0)).tolist()
    if not places:
        raise ModelError(f"a closed form needs a sensor with {_LEAST_READINGS} readings that differ, found none")
    values, start_ms = _on_one_axis(groups, [each[places] for each in series], step_ms)
    observed = ~np.isnan(values)
    with np.errstate(all="ignore"):
        fitted = fit_form(
            np.where(observed, values, 0.0),
            observed,
            start_ms=start_ms,
            step_ms=step_ms,
            sensors=[sensors[place] for place in places],
            steps=length,
            timezone=timezone,
        )
    return fitted.form, fitted.report


def _on_one_axis(groups: Sequence[Group], series: Sequence[Doubles], step_ms: int) -> tuple[Doubles, int]:
    """Series of all groups as one array [g, C, N], and the time of its first step.

    Groups of different years are moved by whole days, or years for slow data, so that the array has few empty steps.
    Of very many groups, every second, third, ... one is taken.
    """
    longest = max(each.shape[1] for each in series)
    starts = np.array([int(each.times_ms[0]) for each in groups if len(each.times_ms)])
    ends = np.array([int(each.times_ms[-1]) for each in groups if len(each.times_ms)])
    series = [each for each in series if each.shape[1]]
    if (ends.max() - starts.min()) // step_ms + 1 > 2 * longest:
        phase = phase_for(step_ms, "UTC")
        period_ms = phase.period_ms if phase is not None else DAY_MS
        starts = starts + (ends.max() - ends) // period_ms * period_ms
    first = np.rint((starts - starts.min()) / step_ms).astype(np.int64)
    total = int(max(at + each.shape[1] for at, each in zip(first, series, strict=True)))
    every = max(1, -(-total * sum(map(len, series)) // _MOST_CELLS))
    chosen = range(0, len(series), every)
    out = np.full((len(chosen), len(series[0]), total), np.nan)
    for row, number in enumerate(chosen):
        out[row, :, first[number] : first[number] + series[number].shape[1]] = series[number]
    most = max(1, _MOST_CELLS // max(1, len(chosen) * len(series[0])))
    cut = max(0, total - most)  # the newest steps of a single, very long group
    return out[:, :, cut:], int(starts.min()) + cut * step_ms


def _spread(series: Sequence[Doubles], sensors: int) -> Doubles:
    """Deviation of each sensor's readings around their mean [C]; 0 where they are constant, or absent."""
    out = np.zeros(sensors)
    for place in range(sensors):
        seen = [values[place][~np.isnan(values[place])] for values in series]
        readings = np.concatenate(seen) if seen else np.zeros(0)
        if len(readings) and readings.min() < readings.max():
            out[place] = readings.std()
    return out


def _line_widths(series: Sequence[Doubles], sensors: int) -> Doubles:
    """Bands of interpolation from readings between two others; NaN where there is none."""
    out = np.full(sensors, np.nan)
    for place in range(sensors):
        rows = [values[place][~np.isnan(values[place])] for values in series]
        errors = [np.abs(each[1:-1] - (each[2:] + each[:-2]) / 2) / np.sqrt(0.5) for each in rows if len(each) > 2]
        if errors:
            out[place] = np.quantile(np.concatenate(errors), 0.9)
    return out


def _scored(
    fitted: Fitted,
    groups: Sequence[Group],
    series: Sequence[Doubles],
    hidden: Sequence[Bools],
    progress: Progress | None,
) -> Fitted:
    """Fill the hidden cells by both methods, and choose."""
    columns: list[tuple[NDArray[Any], ...]] = []
    for group, values, cells in zip(groups, series, hidden, strict=True):
        known = np.where(cells, np.nan, values)
        line = lines(known, ~np.isnan(known))
        mean, spread = np.full(values.shape, np.nan), np.full(values.shape, np.nan)
        if fitted.forms and cells.any():
            mean, spread = fitted.answers(known, int(group.times_ms[0]), cells)
        scored = cells & np.isfinite(line.values)
        mean = fitted.limits.keep(np.where(np.isnan(mean), line.values, mean))
        errors = np.abs(mean - values), np.abs(line.values - values)
        columns.append((np.nonzero(scored)[0], *(each[scored] for each in (*errors, spread, line.scale))))
        if progress is not None:
            progress("trying", len(columns), len(groups))
    if not columns:
        return fitted
    return _chosen(fitted, *(np.concatenate(each) for each in zip(*columns, strict=True)))


def _chosen(
    fitted: Fitted, place: Ints, form_error: Doubles, line_error: Doubles, deviation: Doubles, scale: Doubles
) -> Fitted:
    """Choose methods and widths of bands by the errors at hidden cells, all [n]."""
    count = len(fitted.sensors)
    by_form, form_width, line_width = fitted.by_form.copy(), fitted.form_width.copy(), fitted.line_width.copy()
    errors, line_errors = np.full(count, np.nan), np.full(count, np.nan)
    cells = np.zeros(count, np.int64)
    kinds = fitted.kinds
    for sensor in range(count):
        mine = place == sensor
        cells[sensor] = mine.sum()
        if not mine.any():
            continue
        errors[sensor], line_errors[sensor] = form_error[mine].mean(), line_error[mine].mean()
        # A value between two states, or two directions, means nothing, even where it is the nearer one.
        stepped = kinds.get(fitted.sensors[sensor]) in (Kind.STATE, Kind.ANGLE)
        by_form[sensor] &= stepped or bool(errors[sensor] <= line_errors[sensor])
        if cells[sensor] >= _LEAST_HIDDEN:
            usable_line = mine & (scale > 0)
            if usable_line.any():
                line_width[sensor] = np.quantile(line_error[usable_line] / scale[usable_line], 0.9)
            usable_form = mine & (deviation > 0)
            if usable_form.sum() >= _LEAST_HIDDEN:
                ratio = float(np.quantile(form_error[usable_form] / deviation[usable_form], 0.9))
                form_width[sensor] = np.clip(ratio, _WIDTHS[0] * _NINETY, _WIDTHS[1] * _NINETY)
    return replace(
        fitted,
        by_form=by_form,
        form_width=form_width,
        line_width=line_width,
        form_error=errors,
        line_errors=line_errors,
        cells=cells,
    )
