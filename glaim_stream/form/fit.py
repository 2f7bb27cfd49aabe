"""The fit of a closed form: seconds, without epochs.

The rows are cut in time, for all groups at once: training, a gap of one window, validation. Statistics, moments and
profile come from the training rows; shrinkage, ridge, weights, kinds and calibration from the validation windows, whose
cells are hidden like the holes of a stream. Then the moments and levels are extended by all other windows, so that the
newest rows count too.

A caller can state the training rows instead. Validation windows then follow without a gap, their older half may lie in
the training rows, and cells are hidden in the other rows only; nothing is extended in the end.

Fewer than four windows of rows leave no room for a validation: the fit then uses defaults, and the `errors` of its
report are empty.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.blas import one_thread
from glaim_stream.core.errors import ModelError
from glaim_stream.form.candidates import PLAIN, transforms
from glaim_stream.form.choices import choose_dark, choose_levels, choose_recent
from glaim_stream.form.form import LARGEST, ClosedForm
from glaim_stream.form.kinds import Kind, are, continuous, kind_of, with_directions
from glaim_stream.form.moments import Moments
from glaim_stream.form.phase import phase_for
from glaim_stream.form.relation_search import find_relations
from glaim_stream.form.report import INTERPOLATION, LAST_VALUE, MIX, Check, Report, check
from glaim_stream.form.search import (
    CONSTANTS,
    Candidate,
    Validation,
    choose_constants,
    choose_weights,
)
from glaim_stream.form.series import FormSeries, FormWindows
from glaim_stream.form.tiles import span_for
from glaim_stream.form.unlike_sensors import gain, other_weight

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

_LEAST_WINDOWS = 2  # a fit needs the rows of as many windows
_WITH_VALIDATION = 4
_VALIDATION_SHARE = 0.2
_NINETY = 1.6449  # half-width of a normal distribution's 90 % band, in deviations
_WITHOUT_VALIDATION = 1.5  # calibration: an unchecked band had better be too wide


@dataclass(frozen=True)
class Fitted:
    """A closed form and the report of its fit."""

    form: ClosedForm
    report: Report


def rows_needed(steps: int) -> int:
    """Return the number of rows that a fit needs for windows of this many steps."""
    return _LEAST_WINDOWS * steps


@contextmanager
def refused_if_unsolvable() -> Iterator[None]:
    """Raise ModelError if values are too far apart for the arithmetic, such as 1 and 1e40."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise ModelError(f"no closed form can be fitted to values of such sizes: {error}") from error


@one_thread()
@refused_if_unsolvable()
def fit(
    values: Doubles,
    observed: Bools,
    *,
    start_ms: int,
    step_ms: int,
    sensors: Sequence[str],
    steps: int = 96,
    timezone: str = "UTC",
    training_rows: int | None = None,
    only_numbers: bool = False,
    only_plain: bool = False,
    directions: Bools | None = None,
) -> Fitted:
    """Fit a closed form to series of one or many groups.

    Args:
        values: float64 [g, C, N], sensor units; ignored where not observed.
        observed: bool [g, C, N].
        start_ms: time of the first of the N steps.
        step_ms: distance of two steps.
        sensors: ids of the C sensors.
        steps: T, steps of a window.
        timezone: zone in which the profile of the day is measured.
        training_rows: number of first rows from which statistics and moments come; the others only choose constants.
            By default the rows are cut here, and all of them count in the end.
        only_numbers: fill every sensor and step by the Gaussian: also sensors whose values look like states, angles
            or a meter, sensors that the last value fills better, and steps without any reading. This suits errors
            that are squared differences of numbers.
        only_plain: try no variant but the plain one.
        directions: bool [C], sensors that are known to be directions in degrees; None: the values decide.

    Raises:
        ModelError: there are too few rows, no readings, or values too far apart for the arithmetic.
    """
    with np.errstate(invalid="ignore"):
        observed = observed & (np.abs(values) < LARGEST)  # False for NaN too
    series = FormSeries(np.where(observed, values, 0.0).astype(np.float64), observed, start_ms, step_ms)
    if training_rows is None:
        series = _trimmed(series)
    rows = series.steps if training_rows is None else min(training_rows, series.steps)
    if rows < rows_needed(steps):
        raise ModelError(
            f"a closed form for windows of {steps} steps needs {rows_needed(steps)} rows, found {rows}: "
            f"{rows_needed(steps) - rows} more are needed"
        )
    span = span_for(len(sensors), steps)
    cut = _cut(series.steps, steps) if training_rows is None else rows
    training = series.rows(0, cut)
    kinds = (Kind.NUMBER,) * len(sensors)
    if not only_numbers:
        # A valve that is first switched in the validation rows still counts as one. Rows beyond stated training rows
        # stay unseen.
        shown = series if training_rows is None else training
        found = [kind_of(shown.values[:, place], shown.observed[:, place]) for place in range(len(sensors))]
        kinds = tuple(with_directions(found, directions) or ())
    windows = _continuous(kinds, training.windows(span, CONSTANTS.training_windows))
    if not len(windows):
        raise ModelError("a closed form needs readings in its training rows, found none")
    phase = phase_for(step_ms, timezone)
    lookback = -steps if training_rows is None else steps // 2
    validation = _validation(series, cut, lookback, steps, kinds, CONSTANTS.weight_windows)
    few = CONSTANTS.most_rows_per_cell * len(sensors) * span
    shared = len(sensors) > 1 and (span < steps or training.independent_groups() * cut < few)
    distances = CONSTANTS.distances if shared else (0.0,)
    transformed = transforms(training, windows, phase, are(kinds, Kind.METER))

    def attempt(kinds: tuple[Kind, ...], validation: Validation | None, before: _Attempt | None = None) -> _Attempt:
        candidates = {
            name: Candidate(name, transform, Moments(len(sensors), span), phase, step_ms, distances=distances)
            for name, transform in transformed.items()
            if name == PLAIN or not only_plain
        }
        if before is not None:
            candidates[PLAIN].constants = before.candidates[PLAIN].constants
        elif validation is None:
            candidates[PLAIN].constants = CONSTANTS.few_rows
        elif span < steps and len(sensors) > 1:
            candidates[PLAIN].distance = CONSTANTS.default_distance
        candidates[PLAIN].add(windows)
        weights = {PLAIN: 1.0} if validation is None else _chosen(candidates, windows, validation, span)
        form = _form(candidates, weights, windows, training, sensors, steps, kinds)
        # The validation may have the first readings of a sensor; it then chooses the kind too.
        form = choose_levels(dataclasses.replace(form, declines_unseen=False), validation)
        if validation is None:
            return _Attempt(candidates, weights, form, None, {})
        found = check(form, validation)
        form = _corrected(form, found, validation, carry=not only_numbers)
        return _Attempt(candidates, weights, form, validation, found)

    best = attempt(kinds, validation)
    weight = None if validation is None or only_numbers else other_weight(best.found, best.form.kinds)
    if validation is not None and weight is not None:
        other = attempt(best.form.kinds, dataclasses.replace(validation, weight=weight), best)
        if gain(best.found, other.found, other.form.kinds) > -np.log(1.0 - CONSTANTS.least_gain):
            best = other
    candidates, weights, form, validation = best.candidates, best.weights, best.form, best.validation
    errors = {} if validation is None else _errors(best.found, form.kinds) | validation.by_variant
    form = choose_recent(form, validation)
    recent = form.variants[0].recent
    if validation is not None and not only_numbers:
        more = _validation(series, cut, lookback, steps, form.kinds, CONSTANTS.dark_windows) or validation
        form, tried = choose_dark(form, dataclasses.replace(more, weight=validation.weight))
        validation.choices += tried
    known = training if training_rows is not None else series
    everything = _continuous(kinds, known.windows(span, CONSTANTS.training_windows))
    if validation is not None and known is series:
        newest = series.rows(cut - span + 1, series.steps).windows(span, CONSTANTS.training_windows // 4)
        newest = _continuous(kinds, newest)
        for name in weights:
            candidates[name].add(newest)
            candidates[name].ridge *= cut / series.steps  # the noise of moments falls with the number of rows
    final = _form(candidates, weights, everything, known, sensors, steps, form.kinds)
    final = dataclasses.replace(
        final,
        variants=tuple(each.filled_from(recent) for each in final.variants),
        calibration=form.calibration,
        carried_deviation=form.carried_deviation,
        carried_levels=form.carried_levels,
        dark_steps=form.dark_steps,
    )
    special: dict[str, Kind] = {
        name: kind for name, kind in zip(sensors, final.kinds, strict=True) if kind is not Kind.NUMBER
    }
    report = Report(
        training_windows=len(windows),
        validation_windows=0 if validation is None else len(validation.windows),
        errors=errors,
        weights=weights,
        shrinkage={name: candidates[name].shrinkage for name in weights},
        ridge={name: candidates[name].ridge for name in weights},
        distance={name: candidates[name].distance for name in weights},
        calibration=final.calibration,
        choices=0 if validation is None else validation.choices,
        kinds=special,
        relations=len(final.relations.constants),
        recent=recent,
        dark_steps=form.dark_steps,
    )
    return Fitted(final, report)


@dataclass(frozen=True)
class _Attempt:
    """A form with its candidates and its answers to the validation."""

    candidates: dict[str, Candidate]
    weights: dict[str, float]
    form: ClosedForm
    validation: Validation | None
    found: Mapping[str, Check]


def _trimmed(series: FormSeries) -> FormSeries:
    """Leave out steps before the first reading and after the last one of any group."""
    seen = np.flatnonzero(series.observed.any(axis=(0, 1)))
    return series.rows(int(seen[0]), int(seen[-1]) + 1) if len(seen) else series.rows(0, 0)


def _cut(rows: int, steps: int) -> int:
    """The number of training rows; all of them without a validation."""
    if rows < _WITH_VALIDATION * steps:
        return rows
    return rows - steps - max(int(_VALIDATION_SHARE * rows), steps + steps // 2)


def _continuous(kinds: tuple[Kind, ...], windows: FormWindows) -> FormWindows:
    return dataclasses.replace(windows, observed=continuous(kinds, windows.values, windows.observed))


def _validation(
    series: FormSeries, cut: int, lookback: int, steps: int, kinds: tuple[Kind, ...], most: int
) -> Validation | None:
    """Validation windows; the first one begins `lookback` rows before the cut, or after it if that is negative."""
    if cut == series.steps:
        return None
    sensors = series.values.shape[1]
    large = sensors * span_for(sensors, steps) > CONSTANTS.large_cells
    most //= 4 if large else 1
    windows = _continuous(kinds, series.rows(cut - lookback, series.steps).windows(steps, most))
    if not len(windows):
        return None
    training = series.rows(0, cut)
    independent = len(series.values) * (series.steps - cut + min(lookback, 0)) / steps
    first_ms = series.start_ms + cut * series.step_ms
    unseen = windows.end_ms[:, None] - series.step_ms * np.arange(steps - 1, -1, -1) >= first_ms
    apart = are(kinds, Kind.STATE, Kind.ANGLE)
    weight = np.ones(sensors) if apart.all() else np.where(apart, 0.0, 1.0)
    if not (windows.observed & unseen[:, None, :])[:, weight > 0].any():
        return None
    return Validation(windows, training.deviations()[windows.group], independent, unseen, weight)


def _chosen(
    candidates: dict[str, Candidate], windows: FormWindows, validation: Validation, span: int
) -> dict[str, float]:
    """Choose the constants of the variants, starting with the plain one, and the weights.

    The plain variant also decides whether all variants take their moments from windows at equal deviations.
    """
    large = windows.values.shape[1] * span > CONSTANTS.large_cells
    most = CONSTANTS.search_windows // (4 if large else 1)
    plain = candidates[PLAIN]
    error = choose_constants(plain, windows, validation, most)
    evened = dataclasses.replace(plain, moments=Moments(plain.moments.sensors, span), evened=True)
    evened.add(windows)
    gain = error - choose_constants(evened, windows, validation, most, plain)
    if gain > -np.log(1.0 - CONSTANTS.least_even_gain):
        candidates[PLAIN] = plain = evened
    errors = {}
    for name, candidate in candidates.items():
        if candidate is not plain:
            candidate.evened = plain.evened
            candidate.add(windows)
            choose_constants(candidate, windows, validation, most, plain)
        errors[name] = validation.errors(candidate.variant(windows), candidate, CONSTANTS.weight_windows)
    validation.by_variant = {
        name: {case: float(np.mean(error**2)) for case, error in cases.items() if len(error)}
        for name, cases in errors.items()
    }
    weights = choose_weights(errors, PLAIN, validation)
    if all(candidates[name].transform.logarithm.any() for name in weights):
        weights = {PLAIN: 0.0} | weights  # the plain one bounds the logarithms and fills windows that do not suit them
    return dict(sorted(weights.items(), key=lambda each: (candidates[each[0]].transform.logarithm.any(), -each[1])))


def _form(
    candidates: Mapping[str, Candidate],
    weights: Mapping[str, float],
    windows: FormWindows,
    series: FormSeries,
    sensors: Sequence[str],
    steps: int,
    kinds: tuple[Kind, ...],
) -> ClosedForm:
    seen = series.observed
    never = ~seen.any(axis=(0, 2))
    lowest = np.where(never, 0.0, series.values.min(axis=(0, 2), where=seen, initial=np.inf))
    highest = np.where(never, 0.0, series.values.max(axis=(0, 2), where=seen, initial=-np.inf))
    with np.errstate(invalid="ignore"):
        swing = windows.values.max(axis=2, where=windows.observed, initial=-np.inf)
        swing = swing - windows.values.min(axis=2, where=windows.observed, initial=np.inf)
    flat = series.values.transpose(1, 0, 2).reshape(len(sensors), -1)
    return ClosedForm(
        sensors=tuple(sensors),
        steps=steps,
        step_ms=series.step_ms,
        span=windows.values.shape[2],
        variants=tuple(candidates[name].variant(windows) for name in weights),
        weights=tuple(weights.values()),
        kinds=kinds,
        relations=find_relations(flat, seen.transpose(1, 0, 2).reshape(flat.shape)),
        phase=next(
            (candidates[name].phase for name in weights if candidates[name].transform.profile is not None), None
        ),
        calibration=_WITHOUT_VALIDATION,
        lowest=lowest,
        highest=highest,
        swing=np.maximum(swing.max(axis=0), 0.0),
        carried_deviation=candidates[PLAIN].transform.scale,
        until_ms=series.start_ms + series.steps * series.step_ms,
    )


def _corrected(form: ClosedForm, found: Mapping[str, Check], validation: Validation, *, carry: bool) -> ClosedForm:
    """Carry the sensors that the last value fills better if `carry`, and calibrate the deviations of the others.

    A sensor that was constant in training has no deviation to calibrate. If it has moved since, its errors would make
    the bands of all the others a million times as wide.
    """
    sensor = np.concatenate([each.sensor for each in found.values()])
    error, last, line = (
        np.concatenate([getattr(each, name) for each in found.values()]) for name in ("error", "last", "line")
    )
    kinds, carried = list(form.kinds), form.carried_deviation.copy()
    for place in np.unique(sensor):
        cells = sensor == place
        if carry and kinds[place] is Kind.NUMBER:
            validation.choices += 1
            if np.abs(error[cells]).mean() > np.abs(last[cells]).mean():
                kinds[place] = Kind.CARRIED
        simple = last if kinds[place] is Kind.NUMBER else line
        carried[place] = np.sqrt(np.mean(simple[cells] ** 2)) * np.median(validation.unit[:, place])
    ratios, weight, moved = [], [], form.variants[0].transform.wildest > 0
    for each in found.values():
        usable = (are(kinds, Kind.NUMBER) & moved)[each.sensor] & (each.deviation > 0)
        ratios.append(np.abs(each.error[usable]) * form.calibration / each.deviation[usable])
        weight.append(np.full(usable.sum(), 1.0 / max(usable.sum(), 1)))
    calibration = form.calibration
    if sum(map(len, ratios)):
        order = np.argsort(np.concatenate(ratios))
        share = np.cumsum(np.concatenate(weight)[order])
        place = int(np.searchsorted(share, 0.9 * share[-1]))
        calibration = max(float(np.concatenate(ratios)[order][place]) / _NINETY, 1e-3)
    return dataclasses.replace(form, kinds=tuple(kinds), calibration=calibration, carried_deviation=carried)


def _errors(found: Mapping[str, Check], kinds: Sequence[Kind]) -> dict[str, dict[str, float]]:
    carried = are(kinds, Kind.CARRIED)
    errors: dict[str, dict[str, float]] = {MIX: {}, INTERPOLATION: {}, LAST_VALUE: {}}
    for case, each in found.items():
        if len(each.error):
            ours = np.where(carried[each.sensor], each.line, each.error)
            for method, error in zip(errors, (ours, each.line, each.last), strict=True):
                errors[method][case] = float(np.mean(error**2))
    return errors
