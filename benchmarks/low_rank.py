"""A low-rank alternative to the closed form of many sensors: k factors with their lags, and noise of each sensor.

A window [C, T] less its levels is loadings [C, k] times factors [k, T], plus noise that is independent between sensors.
The factors have a covariance of all their cells [kT, kT] and so has each sensor's noise [T, T], so that a sensor's own
near past counts beside what it shares. The windows keep all their steps, where the closed form covers the nearest.

By the Woodbury identity a window costs one system of kT unknowns, and for each sensor with holes one of its own missing
cells, instead of one system of all missing cells.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form.inverse import inverse_of_covariance
from glaim_stream.form.moments import LEVEL_VARIANCE, Moments, without_level

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


class LowRank:
    """The distribution of missing cells given the observed ones; takes the place of `gaussian.conditional`."""

    def __init__(self, loadings: Doubles, factors: Doubles, own: Doubles) -> None:
        """Invert the covariances.

        Args:
            loadings: float64 [C, k].
            factors: float64 [kT, kT], covariance of the factors, those of one factor beside each other.
            own: float64 [C, T, T], covariance of each sensor's noise, with its free level.
        """
        self._loadings, self._steps = loadings, own.shape[1]
        sensors, count = loadings.shape
        self._pairs = (loadings[:, :, None] * loadings[:, None, :]).reshape(sensors, count * count)
        self._precision: Doubles = np.asarray(np.linalg.inv(own), np.float64)
        self._complete: Doubles = inverse_of_covariance(factors) + self._spread(self._pairs, self._precision)

    @property
    def numbers(self) -> int:
        """Numbers in the arrays."""
        return self._complete.size + self._precision.size + self._pairs.size + self._loadings.size

    def fill(
        self, values: Doubles, observed: Bools, wanted: Bools | None = None, *, with_variance: bool = True
    ) -> tuple[Doubles, Doubles]:
        """Return means and variances [n, D] of missing cells; arguments as for `Conditional.fill`."""
        shape = (len(self._loadings), self._steps)
        mean, variance = np.where(observed, values, 0.0), np.zeros(values.shape)
        asked = np.ones(shape, np.bool_) if wanted is None else wanted.reshape(shape)
        for row in range(len(values)):
            self._fill(
                mean[row].reshape(shape), variance[row].reshape(shape), observed[row].reshape(shape), asked,
                with_variance=with_variance,
            )  # fmt: skip
        return mean, variance

    def _fill(self, values: Doubles, variance: Doubles, observed: Bools, asked: Bools, *, with_variance: bool) -> None:
        """Fill one window [C, T] in place.

        With P the inverse of a sensor's own covariance and q its missing cells, A = inverse(P[q, q]) P[q] has the
        weights of its cells: given the factors, the mean at q is A (their part - values), with 0 for missing values.
        """
        partial = np.flatnonzero(~observed.all(axis=1))
        moved = np.einsum("cts,cs->ct", self._precision, values)
        lost = np.empty((len(partial), self._steps, self._steps))
        inverted, weights = [], []
        for place, sensor in enumerate(partial):
            hole = ~observed[sensor]
            rows = self._precision[sensor][hole]
            inverted.append(np.linalg.inv(rows[:, hole]))
            weights.append(inverted[-1] @ rows)
            lost[place] = rows.T @ weights[-1]
            moved[sensor] -= lost[place] @ values[sensor]
        system = self._complete - self._spread(self._pairs[partial], lost)
        right = (self._loadings.T @ moved).ravel()
        if with_variance:
            spread = inverse_of_covariance(system)
            factors = spread @ right
            by_sensor = self._gathered(self._pairs[partial], spread)
        else:
            factors = np.linalg.solve(system, right)
        shared = self._loadings[partial] @ factors.reshape(-1, self._steps)
        for place, sensor in enumerate(partial):
            hole = ~observed[sensor]
            kept = asked[sensor][hole]
            cells = hole & asked[sensor]
            part = weights[place][kept]
            if with_variance:
                variance[sensor, cells] = np.diagonal(inverted[place])[kept] + np.einsum(
                    "qt,qt->q", part @ by_sensor[place], part
                )
            found = part @ (shared[place] - values[sensor])
            values[sensor, cells] = found

    def _spread(self, pairs: Doubles, blocks: Doubles) -> Doubles:
        """The sum over sensors of the products of Kronecker of pairs of loadings and blocks [T, T], [kT, kT]."""
        steps, count = self._steps, self._loadings.shape[1]
        total = (pairs.T @ blocks.reshape(-1, steps * steps)).reshape(count, count, steps, steps)
        return np.ascontiguousarray(total.transpose(0, 2, 1, 3)).reshape(count * steps, count * steps)

    def _gathered(self, pairs: Doubles, matrix: Doubles) -> Doubles:
        """Each sensor's covariance [T, T] of its part in the factors."""
        steps, count = self._steps, self._loadings.shape[1]
        parts = matrix.reshape(count, steps, count, steps).transpose(0, 2, 1, 3).reshape(count * count, -1)
        out: Doubles = (pairs @ parts).reshape(-1, steps, steps)
        return out


class Factors:
    """Loadings and moments of factors and noise, from windows; makes `LowRank` with different regularisers."""

    def __init__(self, values: Doubles, observed: Bools, count: int) -> None:
        """Find factors by principal components of the covariance of readings of the same step.

        Args:
            values: float64 [n, C, T], in scales of their sensors.
            observed: bool [n, C, T].
            count: k.
        """
        sensors, steps = values.shape[1:]
        centred = without_level(values, observed).transpose(1, 0, 2).reshape(sensors, -1)
        seen = observed.transpose(1, 0, 2).reshape(sensors, -1).astype(np.float64)
        covariance = centred @ centred.T / np.maximum(seen @ seen.T, 1.0)
        value, vector = np.linalg.eigh(covariance)
        self._loadings = np.ascontiguousarray(vector[:, ::-1][:, :count])
        scores = self._scores(centred, seen, float(np.mean(value[: sensors - count])))
        noise = centred - self._loadings @ scores
        known = np.broadcast_to((seen.mean(axis=0) > 0.5).reshape(-1, 1, steps), (len(values), count, steps))
        self._factors = Moments(count, steps)
        self._factors.add(scores.reshape(count, -1, steps).transpose(1, 0, 2), known)
        self._noise = [Moments(1, steps) for _ in range(sensors)]
        for sensor, moments in enumerate(self._noise):
            moments.add(noise[sensor].reshape(-1, 1, steps), observed[:, [sensor]])
        self._level = LEVEL_VARIANCE * np.maximum(np.diagonal(covariance), 1e-8)

    def conditional(self, shrinkage: float, ridge: float) -> LowRank:
        """Return the distribution; arguments as for `Moments.covariance`."""
        own = np.stack([each.covariance(shrinkage=shrinkage, ridge=ridge) for each in self._noise])
        return LowRank(
            self._loadings,
            self._factors.covariance(shrinkage=shrinkage, ridge=ridge),
            own + self._level[:, None, None],
        )

    def _scores(self, centred: Doubles, seen: Doubles, noise: float) -> Doubles:
        """Factors [k, n * T] of each step, by least squares over the sensors that were observed."""
        if seen.all():
            return self._loadings.T @ centred
        sensors, count = self._loadings.shape
        pairs = (self._loadings[:, :, None] * self._loadings[:, None, :]).reshape(sensors, -1)
        system = (seen.T @ pairs).reshape(-1, count, count) + max(noise, 1e-8) * np.eye(count)
        return np.linalg.solve(system, (centred.T @ self._loadings)[:, :, None])[:, :, 0].T
