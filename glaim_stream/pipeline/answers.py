"""The imputer's answers cell by cell, beside those of the baseline, linear interpolation. Arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend.mixture import blend
from glaim_stream.blend.scores import Answers, Expert
from glaim_stream.imputers.baselines import interpolation_at
from glaim_stream.imputers.protocol import Imputed
from glaim_stream.output.repair import publishable
from glaim_stream.output.sensor_tables import SensorTable
from glaim_stream.vocabulary import Method
from glaim_stream.windows.closing import NO_WINDOW, Closed
from glaim_stream.windows.probes import Place, Probes, age_class, places

_MOST_SCORED = 1e100  # beyond any measurement
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HoleAnswers:
    """The holes that the model filled, and the place of each in the imputer's answer."""

    cells: Answers
    window: Ints
    step: Ints  # index on the answer's last axis


def holes_of(closed: Closed | None, imputed: Imputed | None) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the rows of closed steps that are holes, and which of them the model filled."""
    if closed is None or imputed is None:
        return np.empty(0, np.int64), np.empty(0, np.bool_)
    holes = np.flatnonzero(closed.window != NO_WINDOW)
    at = imputed.values.shape[2] - 1 - closed.lag[holes]
    return holes, imputed.method[closed.window[holes], closed.sensor[holes], at] == Method.MODEL


def hole_answers(closed: Closed | None, imputed: Imputed | None, step_ms: int) -> HoleAnswers:
    """Return the holes that the model filled; a hole filled by another method is not blended."""
    holes, by_model = holes_of(closed, imputed)
    if closed is None or imputed is None or not by_model.any():
        return HoleAnswers(Answers.none(), np.empty(0, np.int64), np.empty(0, np.int64))
    holes = holes[by_model]
    at = imputed.values.shape[2] - 1 - closed.lag[holes]
    window, sensor, lag = (column[holes].astype(np.int64) for column in (closed.window, closed.sensor, closed.lag))
    cells = Answers(
        closed.ts_ms[holes] // step_ms + lag,
        sensor,
        age_class(closed.gap_age[holes]),
        places(closed.window_observed, window, sensor, lag),
        _values(
            imputed.values[window, sensor, at],
            _baseline(closed.window_values, closed.window_observed, window, sensor, lag),
        ),
    )
    return HoleAnswers(cells, window, at)


def probe_answers(probes: Probes, imputed: Imputed, table: SensorTable) -> Answers:
    """Return the answers for probes.

    They are rounded and limited as published values are: a model's last bits depend on the batch that a window came
    in, and the blending weights must not.
    """
    at = imputed.values.shape[2] - 1 - probes.lag
    model = imputed.values[probes.window, probes.sensor, at]
    model[imputed.method[probes.window, probes.sensor, at] != Method.MODEL] = np.nan
    baseline = _baseline(probes.values, probes.observed, probes.window, probes.sensor, probes.lag)
    # Errors of such a size would drown all others in the sums that weights and metrics are made of.
    model[np.maximum(np.abs(baseline), np.abs(probes.truth)) > _MOST_SCORED] = np.nan
    return Answers(
        probes.step,
        probes.sensor,
        age_class(probes.gap_age),
        places(probes.observed, probes.window, probes.sensor, probes.lag),
        _values(publishable(model, probes.sensor, table), publishable(baseline, probes.sensor, table)),
    )


def blended(imputed: Imputed, holes: HoleAnswers, weights: Doubles) -> Imputed:
    """Blend the holes by the weights of the experts, [holes, experts].

    A value that one expert made alone has the method of that expert.
    """
    if len(holes.cells) == 0:
        return imputed
    cells = holes.cells
    place = (holes.window, cells.sensor, holes.step)
    values, method = imputed.values.copy(), imputed.method.copy()
    values[place] = blend(cells.values, weights)
    methods = np.empty(weights.shape, np.int8)
    methods[:, Expert.MODEL] = Method.MODEL
    methods[:, Expert.BASELINE] = np.where(
        cells.place % 2 == Place.INTERIOR, np.int8(Method.INTERPOLATION), np.int8(Method.LAST_VALUE)
    )
    awake = np.isfinite(cells.values)
    used = awake & (weights > 0)
    used = np.where(used.any(axis=1, keepdims=True), used, awake)
    last = weights.shape[1] - 1 - used[:, ::-1].argmax(axis=1)  # the baseline where no expert has a value
    alone = methods[np.arange(len(cells)), last]
    method[place] = np.where(used.sum(axis=1) > 1, np.int8(Method.BLEND), alone)
    return replace(imputed, values=values, method=method)


def _values(model: Doubles, baseline: Doubles) -> Doubles:
    """The values of the experts in the order of `Expert`, [n, experts]."""
    values: Doubles = np.stack([model, baseline], axis=1).astype(np.float64)
    return values


def _baseline(values: Doubles, observed: NDArray[np.bool_], window: Ints, sensor: Ints, lag: Ints) -> Doubles:
    """Return the ladder's last rung for single cells [n]: interpolation, or the last value where no reading follows."""
    at = values.shape[2] - 1 - lag
    return interpolation_at(values[window, sensor], observed[window, sensor], at)
