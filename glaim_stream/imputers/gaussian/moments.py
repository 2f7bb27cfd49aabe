"""The covariance of the cells of a window, from windows with holes.

Each sensor's mean over the window is taken off first; what is left of the level is free again later, by a large
constant. Moments are pairwise: a pair of cells counts in the windows in which both were observed. Two regularisers:

- *Shrinkage* towards the average over lags: the covariance of two cells of sensors a and b then depends on their
  distance in steps alone (block Toeplitz). It has C * C * (2T - 1) numbers instead of D * D / 2.
- *A ridge*, the share of a cell's variance that no other cell explains.

Pairwise moments need not be positive definite; negative eigenvalues are set to the ridge.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEVEL_VARIANCE = 1e4  # of a sensor's free level, in variances of its cells within a window
_LEAST_VARIANCE = 1e-8  # of a cell, in squared scales of its sensor; a sensor below it counts as constant
_ROWS_AT_A_TIME = 4096


class Moments:
    """Sums over windows from which covariances with different regularisers are made."""

    def __init__(self, sensors: int, steps: int) -> None:
        """Start at zero.

        Args:
            sensors: C.
            steps: T, of a window.
        """
        self.sensors, self.steps = sensors, steps
        cells = sensors * steps
        self._products, self._pairs = np.zeros((cells, cells)), np.zeros((cells, cells))
        self.windows = 0

    def add(self, values: Doubles, observed: Bools) -> None:
        """Add windows.

        Args:
            values: float64 [n, C, T], in scales of their sensors; ignored where not observed.
            observed: bool [n, C, T].
        """
        for start in range(0, len(values), _ROWS_AT_A_TIME):
            part = slice(start, start + _ROWS_AT_A_TIME)
            centred = without_level(values[part], observed[part]).reshape(-1, self.sensors * self.steps)
            seen = observed[part].reshape(centred.shape).astype(np.float64)
            self._products += centred.T @ centred
            self._pairs += seen.T @ seen
        self.windows += len(values)

    def covariance(self, *, shrinkage: float, ridge: float) -> Doubles:
        """Return a positive definite covariance [D, D] with free levels.

        Args:
            shrinkage: share of the average over lags, in [0, 1].
            ridge: added to the diagonal, in variances of a cell; above 0.

        Raises:
            ValueError: there are no windows.
        """
        if not self.windows:
            raise ValueError("expected windows, found none")
        by_lag = self._average_over_lags()
        known = self._pairs > 0
        pairwise = np.divide(self._products, self._pairs, out=by_lag.copy(), where=known)
        mixed = (1.0 - shrinkage) * pairwise + shrinkage * by_lag
        by_sensor = np.diagonal(mixed).reshape(self.sensors, self.steps).mean(axis=1)
        usual = np.maximum(by_sensor, _LEAST_VARIANCE).repeat(self.steps)
        return _positive(mixed, ridge * usual) + self._levels(usual)

    def _average_over_lags(self) -> Doubles:
        shape = (self.sensors, self.steps, self.sensors, self.steps)
        products, pairs = self._products.reshape(shape), self._pairs.reshape(shape)
        out = np.zeros(shape)
        step = np.arange(self.steps)
        for lag in range(self.steps):
            early, late = step[: self.steps - lag], step[lag:]
            count = pairs[:, early, :, late].sum(axis=0)  # [C, C]: advanced indices come first
            mean = np.divide(products[:, early, :, late].sum(axis=0), count, out=np.zeros_like(count), where=count > 0)
            out[:, early, :, late] = mean
            out[:, late, :, early] = mean.T
        return out.reshape(self._products.shape)

    def _levels(self, usual: Doubles) -> Doubles:
        same = np.kron(np.eye(self.sensors), np.ones((self.steps, self.steps)))
        return LEVEL_VARIANCE * usual * same


def without_level(values: Doubles, observed: Bools) -> Doubles:
    """Return the values less each sensor's mean over the observed cells of its window, 0 where not observed."""
    count = observed.sum(axis=2, keepdims=True)
    total = np.where(observed, values, 0.0).sum(axis=2, keepdims=True)
    return np.where(observed, values - total / np.maximum(count, 1), 0.0)


def _positive(matrix: Doubles, floor: Doubles) -> Doubles:
    """Add the floor to the diagonal, after negative eigenvalues were set to 0."""
    value, vector = np.linalg.eigh(matrix)
    if value[0] < 0:
        matrix = (vector * np.maximum(value, 0.0)) @ vector.T
    out = matrix + np.diag(floor)
    return (out + out.T) / 2
