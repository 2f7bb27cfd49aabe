"""The answers of the imputer and the closed form cell by cell, beside the baseline's. Arithmetic only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend import Expert, Predictions, blend
from glaim_stream.core.vocabulary import Method
from glaim_stream.form import Kind, Limits, are, interpolation_at
from glaim_stream.imputers import Imputed
from glaim_stream.output import SensorTable, publishable
from glaim_stream.windows import NO_WINDOW, Closed, Place, Probes, age_class, places

_MOST_SCORED = 1e100  # beyond any measurement
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HolePredictions:
    """The holes that were filled, and the place of each in the imputer's answer."""

    cells: Predictions
    window: Ints
    step: Ints  # index on the answer's last axis
    row: Ints  # row of the closed steps


def holes_of(
    closed: Closed | None, imputed: Imputed | None, method: Method = Method.MODEL
) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the rows of closed steps that are holes, and which of them a method filled."""
    if closed is None or imputed is None:
        return np.empty(0, np.int64), np.empty(0, np.bool_)
    holes = np.flatnonzero(closed.window != NO_WINDOW)
    at = imputed.values.shape[2] - 1 - closed.lag[holes]
    return holes, imputed.method[closed.window[holes], closed.sensor[holes], at] == method


def predict_holes(
    closed: Closed | None,
    imputed: Imputed | None,
    step_ms: int,
    form: Imputed | None = None,
    kinds: Sequence[Kind] | None = None,
    added: Sequence[Imputed] = (),
) -> HolePredictions:
    """Return the filled holes; one that only a baseline filled has nothing to blend, but an interval.

    Args:
        closed: rows, some of which are holes.
        imputed: the imputer's answer for them.
        step_ms: length of the model's steps.
        form: the closed form's answer; None: the model has none, and so one expert less.
        kinds: kinds of the sensors; None: all are numbers.
        added: answers of the registered experts.
    """
    nothing = HolePredictions(Predictions.none(), *[np.empty(0, np.int64)] * 3)
    if closed is None or imputed is None:
        return nothing
    holes, filled = holes_of(closed, imputed)
    if form is not None:
        filled = filled | holes_of(closed, form, Method.GAUSSIAN)[1]
    place = (closed.window[holes], closed.sensor[holes], imputed.values.shape[2] - 1 - closed.lag[holes])
    for each in added:
        filled = filled | np.isfinite(each.values[place])
    for method in (Method.INTERPOLATION, Method.LAST_VALUE):
        filled = filled | holes_of(closed, imputed, method)[1]
    if not filled.any():
        return nothing
    holes = holes[filled]
    at = imputed.values.shape[2] - 1 - closed.lag[holes]
    window, sensor, lag = (column[holes].astype(np.int64) for column in (closed.window, closed.sensor, closed.lag))
    unmixable = _unmixable(form, window, sensor, at)
    cells = Predictions(
        closed.ts_ms[holes] // step_ms + lag,
        sensor,
        age_class(closed.gap_age[holes]),
        places(closed.window_observed, window, sensor, lag),
        _values(
            _by(Method.MODEL, imputed, window, sensor, at),
            _baseline(closed.window_values, closed.window_observed, window, sensor, lag, kinds),
            None if form is None else _by(Method.GAUSSIAN, form, window, sensor, at),
            unmixable,
            [each.values[window, sensor, at] for each in added],
        ),
        unmixable,
        _direction(kinds, sensor),
    )
    return HolePredictions(cells, window, at, holes)


def predict_probes(
    probes: Probes,
    imputed: Imputed,
    table: SensorTable,
    form: Imputed | None = None,
    limits: Limits | None = None,
    kinds: Sequence[Kind] | None = None,
    added: Sequence[Imputed] = (),
) -> Predictions:
    """Return the answers for probes of the imputer, the baseline and, where the model has one, the closed form.

    They are rounded and limited as published values are: a model's last bits depend on the batch that a window came
    in, and the blending weights must not.
    """
    at = imputed.values.shape[2] - 1 - probes.lag
    baseline = _baseline(probes.values, probes.observed, probes.window, probes.sensor, probes.lag, kinds)
    # Errors of such a size would drown all others in the sums that weights and metrics are made of.
    drowning = np.maximum(np.abs(baseline), np.abs(probes.truth)) > _MOST_SCORED

    def scored(values: Doubles) -> Doubles:
        values = np.where(drowning, np.nan, values)
        if limits is not None:
            cell = (probes.window, probes.sensor)
            values = np.clip(values, limits.lowest[cell], limits.highest[cell])
        return publishable(values, probes.sensor, table)

    unmixable = _unmixable(form, probes.window, probes.sensor, at)
    return Predictions(
        probes.step,
        probes.sensor,
        age_class(probes.gap_age),
        places(probes.observed, probes.window, probes.sensor, probes.lag),
        _values(
            scored(_by(Method.MODEL, imputed, probes.window, probes.sensor, at)),
            publishable(baseline, probes.sensor, table),
            None if form is None else scored(_by(Method.GAUSSIAN, form, probes.window, probes.sensor, at)),
            unmixable,
            [scored(each.values[probes.window, probes.sensor, at]) for each in added],
        ),
        unmixable,
        _direction(kinds, probes.sensor),
    )


def blended(imputed: Imputed, holes: HolePredictions, weights: Doubles, form: Imputed | None = None) -> Imputed:
    """Blend the holes by the weights of the experts, [holes, experts].

    A value that one expert made alone has the method of that expert. A value in which the closed form has a part and
    the model has none gets the deviation and the version of `form`.
    """
    if len(holes.cells) == 0:
        return imputed
    cells = holes.cells
    place = (holes.window, cells.sensor, holes.step)
    values, method = imputed.values.copy(), imputed.method.copy()
    values[place] = blend(cells.values, weights, cells.direction)
    methods = np.empty(weights.shape, np.int8)
    methods[:, Expert.MODEL] = Method.MODEL
    methods[:, Expert.BASELINE] = np.where(
        cells.place % 2 == Place.INTERIOR, np.int8(Method.INTERPOLATION), np.int8(Method.LAST_VALUE)
    )
    methods[:, Expert.GAUSSIAN :] = Method.GAUSSIAN
    methods[:, len(Expert) :] = Method.BLEND  # rows have no method of a registered expert
    used = _used(cells, weights)
    # The baseline, or the closed form, where no expert has a value.
    last = weights.shape[1] - 1 - used[:, ::-1].argmax(axis=1)
    alone = methods[np.arange(len(cells)), last]
    method[place] = np.where(used.sum(axis=1) > 1, np.int8(Method.BLEND), alone)
    if form is None:
        return replace(imputed, values=values, method=method)
    deviation = np.full(values.shape, np.nan) if imputed.deviation is None else imputed.deviation.copy()
    deviation[place] = form_deviation(form, cells, weights, holes.window, holes.step)
    return replace(imputed, values=values, method=method, deviation=deviation, form_version=form.form_version)


def form_deviation(form: Imputed, cells: Predictions, weights: Doubles, window: Ints, step: Ints) -> Doubles:
    """The closed form's deviation of cells [n] in which it has a part and the model has none; NaN for the others.

    Args:
        form: the closed form's answer.
        cells: the experts' answers.
        weights: weights of the experts, [n, experts].
        window: [n], index into the form's windows.
        step: [n], index on its last axis.
    """
    if form.deviation is None:
        return np.full(len(cells), np.nan)
    used = _used(cells, weights)
    by_form = used[:, Expert.GAUSSIAN] & ~used[:, Expert.MODEL]
    return np.where(by_form, form.deviation[window, cells.sensor, step], np.nan)


def _used(cells: Predictions, weights: Doubles) -> NDArray[np.bool_]:
    """Find the experts that have a part in each value, bool [n, experts].

    For some sensors the closed form's value is the last one, as the baseline's is. Then the closed form counts alone,
    so that equal values do not make a blend.
    """
    awake = np.isfinite(cells.values)
    used = awake & (weights > 0)
    used = np.where(used.any(axis=1, keepdims=True), used, awake)
    if weights.shape[1] > Expert.GAUSSIAN:
        baseline, gaussian = Expert.BASELINE, Expert.GAUSSIAN
        same = used[:, baseline] & (cells.values[:, baseline] == cells.values[:, gaussian])
        used[same, gaussian] = True
        used[same, baseline] = False
    return used


def _values(
    model: Doubles, baseline: Doubles, gaussian: Doubles | None, unmixable: Bools | None, added: Sequence[Doubles]
) -> Doubles:
    """The values of the experts by their numbers, [n, experts]; for unmixable cells only the closed form's."""
    if added and gaussian is None:
        gaussian = np.full(len(model), np.nan)  # keeps the column of each expert
    columns = [model, baseline, *([] if gaussian is None else [gaussian]), *added]
    values: Doubles = np.stack(columns, axis=1).astype(np.float64)
    if unmixable is not None:
        values[unmixable, : Expert.GAUSSIAN] = values[unmixable, len(Expert) :] = np.nan
    return values


def _unmixable(form: Imputed | None, window: Ints, sensor: Ints, step: Ints) -> Bools | None:
    """The cells [n] for which the closed form has a value that is not to be mixed with others; None: there are none."""
    if form is None or form.unmixable is None:
        return None
    unmixable: Bools = form.unmixable[window, sensor] & (form.method[window, sensor, step] == Method.GAUSSIAN)
    return unmixable


def _by(method: Method, imputed: Imputed, window: Ints, sensor: Ints, step: Ints) -> Doubles:
    """The values of cells [n] that were made by `method`, NaN for the others."""
    cell = (window, sensor, step)
    return np.where(imputed.method[cell] == method, imputed.values[cell], np.nan)


def _baseline(
    values: Doubles, observed: Bools, window: Ints, sensor: Ints, lag: Ints, kinds: Sequence[Kind] | None
) -> Doubles:
    """Return the ladder's last rung for single cells [n]: interpolation, or the last value where no reading follows."""
    at = values.shape[2] - 1 - lag
    return interpolation_at(values[window, sensor], observed[window, sensor], at, _direction(kinds, sensor))


def _direction(kinds: Sequence[Kind] | None, sensor: Ints) -> Bools | None:
    """Find the cells [n] that are directions in degrees; None: there are none."""
    return None if kinds is None else are(kinds, Kind.ANGLE)[sensor]
