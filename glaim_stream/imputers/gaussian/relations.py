"""Exact linear relations between sensors: a copy, or a sum such as total = inlet + outlet.

The ridge that keeps a covariance positive also keeps a copy from being filled exactly. So relations that hold at every
training step are kept apart: where all but one of a relation's sensors are observed, the last one follows from it.

A relation can end: a device is recalibrated, or a counter starts again. So each window tests its relations at the steps
where all of their sensors are observed. One that a step contradicts is not used in that window. One that no step tests
fills only sensors that are silent for the whole window, whose own readings say nothing; such cells do not count as
observed, and their deviations are not 0 (`ClosedForm`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Origins = dict[tuple[int, int], tuple[float, Doubles]]

_EXACT = 1e-8  # residual, in deviations of the sensor, up to which a relation holds
_LEAST_STEPS = 50  # complete ones, times the number of sensors
_SAMPLE = 2_000  # steps that propose a relation; all of them confirm it
_LEAST_SHARE = 1e-4  # a coefficient below it, in deviations, is rounding error unless the relation fails without it
_LEAST_OF_ALL = 1e-8  # ... and below this one it cannot be told from the rounding of doubles
# Residuals of a later window may be ten times as large as any of the training: coefficients are estimates, and readings
# leave the range that the training had. That is still a tenth of the millionth to which a copy is filled.
_MARGIN = 10.0
_ROUNDING = 1e-12  # of the sum of a relation's terms: doubles hold 16 digits, and least squares lose some of them


@dataclass(frozen=True, slots=True)
class Completed:
    """Windows with the cells that follow from relations.

    values, observed: [n, C, T]; cells that follow from confirmed relations are filled and count as observed.
    confirmed: bool [n, r], relations that steps of the window confirm.
    possible: bool [n, r], those that no step contradicts.
    likely: float64 [n, C, T], values of the cells that follow from possible relations; None: there are none.
    unconfirmed: bool [n, C, T], those of these cells that do not follow from confirmed ones; None: there are none.
    moved: float64 [n, C], sensor units, by how much the residuals of contradicted relations change within the window;
        NaN for sensors without such a relation. None: there are none.
    """

    values: Doubles
    observed: Bools
    confirmed: Bools
    possible: Bools
    likely: Doubles | None = None
    unconfirmed: Bools | None = None
    moved: Doubles | None = None

    @property
    def apart(self) -> Bools:
        """The cells [n, C, T] whose deviations are not what the covariances say."""
        out = np.zeros(self.observed.shape, np.bool_) if self.unconfirmed is None else self.unconfirmed.copy()
        if self.moved is not None:
            out |= ~np.isnan(self.moved)[:, :, None]
        return out


@dataclass(frozen=True)
class Relations:
    """Relations: coefficients [r, C] times the sensors' values are the constants [r].

    1e-8 of a row's unit is at most 1e-8 of the deviation of one of its sensors, and 1e-4 of all others'.
    """

    coefficients: Doubles
    constants: Doubles

    def complete(self, values: Doubles, observed: Bools) -> Completed:
        """Return windows with the cells that follow from relations.

        Args:
            values: float64 [n, C, T], sensor units; ignored where not observed.
            observed: bool [n, C, T].
        """
        if not len(self.constants) or observed.all():
            none = np.zeros((len(values), len(self.constants)), np.bool_)
            return Completed(values, observed, none, none)
        values = np.where(observed, values, 0.0)
        confirmed, contradicted = self.tested(values, observed)
        possible = ~contradicted
        moved = self._moved(values, observed, contradicted) if contradicted.any() else None
        completed, complete = self._applied(values, observed, confirmed)
        found = Completed(completed, complete, confirmed, possible, moved=moved)
        if (possible == confirmed).all():
            return found
        likely, known = self._applied(completed, complete, possible)
        silent = ~np.any(observed, axis=2)
        unconfirmed = known & ~complete & silent[:, :, None]
        return replace(found, likely=likely, unconfirmed=unconfirmed) if unconfirmed.any() else found

    def tested(self, values: Doubles, observed: Bools) -> tuple[Bools, Bools]:
        """Return which relations steps of windows [n, r] confirm, and which ones a step contradicts.

        Args:
            values: float64 [n, C, T], sensor units; finite where not observed.
            observed: bool [n, C, T].
        """
        confirmed, contradicted = np.zeros((2, len(values), len(self.constants)), np.bool_)
        for place, (row, constant) in enumerate(zip(self.coefficients, self.constants, strict=True)):
            members = np.flatnonzero(row)
            together: Bools = observed[:, members].sum(axis=1) == len(members)
            terms = values[:, members] * row[members, None]
            tolerance = _MARGIN * _EXACT + _ROUNDING * (np.abs(terms).sum(axis=1) + abs(constant))
            holds = np.abs(terms.sum(axis=1) - constant) <= tolerance
            contradicted[:, place] = (together & ~holds).any(axis=1)
            confirmed[:, place] = together.any(axis=1) & ~contradicted[:, place]
        return confirmed, contradicted

    def _moved(self, values: Doubles, observed: Bools, contradicted: Bools) -> Doubles:
        """Return by how much residuals of contradicted relations [n, r] change within a window; as in `Completed`."""
        out = np.full(values.shape[:2], np.nan)
        for row, some in zip(self.coefficients, contradicted.T, strict=True):
            members, windows = np.flatnonzero(row), np.flatnonzero(some)
            if not len(windows):
                continue
            part = np.ix_(windows, members)
            together = observed[part].all(axis=1)
            total = (values[part] * row[members, None]).sum(axis=1)
            change = np.where(together, total, -np.inf).max(axis=1) - np.where(together, total, np.inf).min(axis=1)
            out[part] = np.fmax(out[part], change[:, None] / np.abs(row[members]))
        return out

    def _applied(self, values: Doubles, observed: Bools, usable: Bools) -> tuple[Doubles, Bools]:
        """Return windows in which cells that follow from the usable relations [n, r] count as observed."""
        values, observed = values.copy(), observed.copy()
        for _ in range(2):  # what one relation fills may complete another
            for row, constant, used in zip(self.coefficients, self.constants, usable.T, strict=True):
                members = np.flatnonzero(row)
                missing = ~observed[:, members]
                window, step = np.nonzero((missing.sum(axis=1) == 1) & used[:, None])
                if not len(window):
                    continue
                place = missing[window, :, step].argmax(axis=1)
                total = values[window[:, None], members, step[:, None]] @ row[members]
                sensor = members[place]
                values[window, sensor, step] = (constant - total) / row[sensor]
                observed[window, sensor, step] = True
        return values, observed

    def origins(self, observed: Bools, usable: Bools | None = None, known: Origins | None = None) -> Origins:
        """Return how the cells that relations fill follow from observed ones of their step.

        Args:
            observed: bool [C, T].
            usable: bool [r], the relations that fill; all by default.
            known: origins of cells that count as observed, which are a part of what is returned.

        Returns:
            By sensor and step: a constant, and weights [C] of the observed values of that step.
        """
        found = {} if known is None else dict(known)
        some = slice(None) if usable is None else usable
        if not len(self.constants[some]):
            return found
        observed = observed.copy()
        for _ in range(2):
            for row, constant in zip(self.coefficients[some], self.constants[some], strict=True):
                members = np.flatnonzero(row)
                for step in np.flatnonzero((~observed[members]).sum(axis=0) == 1).tolist():
                    sensor = int(members[(~observed[members, step]).argmax()])
                    base, weights = constant / row[sensor], np.zeros(len(row))
                    for member in members[members != sensor].tolist():
                        share = -row[member] / row[sensor]
                        inner, of_inner = found.get((member, step), (0.0, None))
                        base += share * inner
                        if of_inner is None:
                            weights[member] += share
                        else:
                            weights += share * of_inner
                    found[sensor, step] = base, weights
                    observed[sensor, step] = True
        return found


def find_relations(values: Doubles, observed: Bools) -> Relations:
    """Return the relations that hold at all steps where their sensors are observed.

    Args:
        values: float64 [C, N], of all groups one after another; finite where not observed.
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
    """Return sets of sensors that are observed together often enough, as places in rising order.

    A set begins with the sensor of the most readings that no set has yet, and takes in the others, those first that
    share the most steps with it, as long as enough steps with all of them remain. So all sensors are one set where they
    can be, and a slow one keeps no relation of the others from being found. That takes C² comparisons of N steps at
    most; relations between sensors of two sets are not found.

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
    """Return the relations between some of the sensors that hold at all steps where these are observed.

    Args:
        values: float64 [C, N].
        observed: bool [C, N].
        places: int64 [c], of the sensors.
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
    """Return weights [b] of other sensors that give a sensor at every step, 0 for those without a part; None: no such.

    Small weights are left out where the others give the sensor without them. If they do not, those stay that can be
    told from rounding errors: the sensor they belong to must itself follow to 1e-4 of its deviation.

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
    if not least < _EXACT:
        return None
    large = np.abs(weights) > _LEAST_SHARE
    told = np.abs(weights) > max(_LEAST_OF_ALL, least * _LEAST_SHARE / _EXACT)
    if residual(cut := np.where(large, weights, 0.0)) < _EXACT:
        return cut
    for kept in (large, told):
        if kept.any() and residual(again := solved(kept)) * _unit(again) < _EXACT:
            return again
    return None


def _unit(weights: Doubles) -> float:
    """The factor of a row by which 1e-8 of it is at most 1e-4 of the deviation of its sensor with the least weight."""
    return max(1.0, _LEAST_SHARE / float(np.abs(weights[weights != 0.0]).min()))
