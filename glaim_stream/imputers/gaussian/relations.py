"""Exact linear relations between sensors: a copy, or a sum such as total = inlet + outlet.

The ridge that keeps a covariance positive also keeps a copy from being filled exactly. So relations that hold at every
training step are kept apart: where all but one of a relation's sensors are observed, the last one follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

_EXACT = 1e-8  # residual, in deviations of the sensor, up to which a relation holds
_LEAST_STEPS = 50  # complete ones, times the number of sensors
_SAMPLE = 2_000  # steps that propose a relation; all of them confirm it
_LEAST_SHARE = 1e-4  # a coefficient below it, in deviations, is rounding error


@dataclass(frozen=True)
class Relations:
    """Relations: coefficients [r, C] times the sensors' values are the constants [r]."""

    coefficients: Doubles
    constants: Doubles

    def apply(self, values: Doubles, observed: Bools) -> tuple[Doubles, Bools]:
        """Return windows in which cells that follow exactly are filled and count as observed.

        Args:
            values: float64 [n, C, T], sensor units; ignored where not observed.
            observed: bool [n, C, T].
        """
        if not len(self.constants) or observed.all():
            return values, observed
        values, observed = np.where(observed, values, 0.0), observed.copy()
        for _ in range(2):  # what one relation fills may complete another
            for row, constant in zip(self.coefficients, self.constants, strict=True):
                members = np.flatnonzero(row)
                missing = ~observed[:, members]
                window, step = np.nonzero(missing.sum(axis=1) == 1)
                if not len(window):
                    continue
                place = missing[window, :, step].argmax(axis=1)
                total = values[window[:, None], members, step[:, None]] @ row[members]
                sensor = members[place]
                values[window, sensor, step] = (constant - total) / row[sensor]
                observed[window, sensor, step] = True
        return values, observed

    def origins(self, observed: Bools) -> dict[tuple[int, int], tuple[float, Doubles]]:
        """Return how the cells that `apply` fills follow from observed ones of their step.

        Args:
            observed: bool [C, T].

        Returns:
            By sensor and step: a constant, and weights [C] of the observed values of that step.
        """
        found: dict[tuple[int, int], tuple[float, Doubles]] = {}
        if not len(self.constants):
            return found
        observed = observed.copy()
        for _ in range(2):
            for row, constant in zip(self.coefficients, self.constants, strict=True):
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
    """Return the relations that hold at all complete steps.

    Args:
        values: float64 [C, N], of all groups one after another.
        observed: bool [C, N].
    """
    sensors = len(values)
    none = Relations(np.zeros((0, sensors)), np.zeros(0))
    complete = values[:, observed.all(axis=0)]
    if complete.shape[1] < _LEAST_STEPS * max(sensors, 2):
        return none
    mean, deviation = complete.mean(axis=1), complete.std(axis=1)
    moving = np.flatnonzero(deviation > 1e-9 * np.abs(mean))
    scaled = (complete[moving] - mean[moving, None]) / deviation[moving, None]
    sample = scaled[:, :: max(1, scaled.shape[1] // _SAMPLE)]
    rows: list[Doubles] = []
    basis: list[int] = []
    for place, sensor in enumerate(moving):
        if basis:
            weights, *_ = np.linalg.lstsq(sample[basis].T, sample[place], rcond=1e-12)
            if np.abs(scaled[place] - weights @ scaled[basis]).max() < _EXACT:
                row = np.zeros(sensors)
                kept = np.abs(weights) > _LEAST_SHARE
                row[moving[np.array(basis)[kept]]] = -weights[kept] / deviation[moving[np.array(basis)[kept]]]
                row[sensor] = 1.0 / deviation[sensor]
                rows.append(row)
                continue
        basis.append(place)
    if not rows:
        return none
    coefficients = np.array(rows)
    return Relations(coefficients, coefficients @ mean)
