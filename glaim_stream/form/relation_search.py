"""Find the exact linear relations between the sensors of a training part: copies and sums, as in `relations`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form.relations import EXACT, Relations

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_LEAST_STEPS = 50  # complete steps for each sensor
_SAMPLE = 2_000  # steps that propose a relation; all of them confirm it
_LEAST_SHARE = 1e-4  # a coefficient below it, in deviations, is rounding error unless the relation fails without it
_LEAST_OF_ALL = 1e-8  # a coefficient below it, in deviations, is the rounding of doubles


def find_relations(values: Doubles, observed: Bools) -> Relations:
    """Return the relations that hold at all steps where their sensors are observed.

    Args:
        values: float64 [C, N], all groups one after another; finite where not observed.
        observed: bool [C, N].
    """
    sensors = len(values)
    found = [_relations_of(values, observed, each) for each in _observed_together(observed)]
    relations = Relations(
        np.concatenate([np.zeros((0, sensors)), *(each.coefficients for each in found)]),
        np.concatenate([np.zeros(0), *(each.constants for each in found)]),
    )
    if not len(relations.constants):
        return relations
    _, contradicted = relations.tested(values[None], observed[None])
    return Relations(relations.coefficients[~contradicted[0]], relations.constants[~contradicted[0]])


def _observed_together(observed: Bools) -> list[Ints]:
    """Return sets of sensors that are observed together often enough, as ascending indices.

    A set begins with the sensor that has the most readings among those in no set. It takes in the others, in the order
    of steps shared with it, as long as enough steps with all of them remain. So all sensors are one set if possible,
    and a slow one hides no relation of the others. That takes C² comparisons of N steps at most; relations between
    sensors of two sets are not found.

    Args:
        observed: bool [C, N].
    """
    left = np.argsort(-observed.sum(axis=1), kind="stable")
    sets = []
    while len(left) > 1:
        first, others = left[0], left[1:]
        steps, chosen = observed[first], [first]
        shared = (observed[others] & steps).sum(axis=1)
        for sensor in others[np.argsort(-shared, kind="stable")]:
            together = steps & observed[sensor]
            if together.sum() >= _LEAST_STEPS * (len(chosen) + 1):
                steps = together
                chosen.append(sensor)
        if len(chosen) > 1:
            sets.append(np.sort(chosen))
        left = left[~np.isin(left, chosen)]
    return sets


def _relations_of(values: Doubles, observed: Bools, places: Ints) -> Relations:
    """Return the relations between some sensors that hold at all steps where these are observed.

    Args:
        values: float64 [C, N].
        observed: bool [C, N].
        places: int64 [c], indices of the sensors.
    """
    complete = values[places][:, observed[places].all(axis=0)]
    mean, deviation = np.zeros((2, len(values)))
    mean[places], deviation[places] = complete.mean(axis=1), complete.std(axis=1)
    moving = np.flatnonzero(deviation[places] > 1e-9 * np.abs(mean[places]))
    scaled = (complete[moving] - mean[places[moving], None]) / deviation[places[moving], None]
    moving = places[moving]
    rows: list[Doubles] = []
    basis: list[int] = []
    for place, sensor in enumerate(moving):
        weights = _weights(scaled[place], scaled[basis]) if basis else None
        if weights is None:
            basis.append(place)
            continue
        row = np.zeros(len(values))
        kept = weights != 0.0
        row[moving[np.array(basis)[kept]]] = -weights[kept] / deviation[moving[np.array(basis)[kept]]]
        row[sensor] = 1.0 / deviation[sensor]
        rows.append(row * _unit(weights))
    coefficients = np.array(rows).reshape(-1, len(values))
    return Relations(coefficients, coefficients @ mean)


def _weights(target: Doubles, others: Doubles) -> Doubles | None:
    """Return weights [b] of other sensors whose weighted sum is a sensor at every step; None: there are none.

    Small weights are left out if the others give the sensor without them. Otherwise weights beyond rounding errors
    stay: the sensor of such a weight must itself follow to 1e-4 of its deviation.

    Args:
        target: float64 [N], in deviations.
        others: float64 [b, N], in deviations.
    """
    every = slice(None, None, max(1, len(target) // _SAMPLE))

    def solved(kept: Bools) -> Doubles:
        out = np.zeros(len(others))
        out[kept], *_ = np.linalg.lstsq(others[kept][:, every].T, target[every], rcond=1e-12)
        return out

    def residual(weights: Doubles) -> float:
        return float(np.abs(target - weights @ others).max())

    weights = solved(np.ones(len(others), np.bool_))
    least = residual(weights)
    if not least < EXACT:
        return None
    large = np.abs(weights) > _LEAST_SHARE
    told = np.abs(weights) > max(_LEAST_OF_ALL, least * _LEAST_SHARE / EXACT)
    if residual(cut := np.where(large, weights, 0.0)) < EXACT:
        return cut
    for kept in (large, told):
        if kept.any() and residual(again := solved(kept)) * _unit(again) < EXACT:
            return again
    return None


def _unit(weights: Doubles) -> float:
    """The factor that makes 1e-8 of a row at most 1e-4 of the deviation of its sensor with the least weight."""
    return max(1.0, _LEAST_SHARE / float(np.abs(weights[weights != 0.0]).min()))
