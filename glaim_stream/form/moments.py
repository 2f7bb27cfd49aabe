"""The covariance of the cells of a window, from windows with holes.

Each sensor's mean over the window is subtracted first; a large constant makes the level free again later. Moments are
pairwise: a pair of cells counts in the windows in which both were observed. Three regularisers:

- *Shrinkage* towards the average over lags: the covariance of two cells of sensors a and b then depends on their
  distance in steps alone (block Toeplitz). It has C * C * (2T - 1) numbers instead of D * D / 2.
- *A ridge*, the share of a cell's variance that no other cell explains.
- *A distance*, the share by which the covariances of different sensors are reduced. With hundreds of sensors and few
  independent windows, much of the apparent covariance of sensors is noise, while each one's own past is known well.

Pairwise moments need not be positive definite; negative eigenvalues are set to the ridge. Lags at which two sensors
were never observed together (a sensor that reports once an hour) are interpolated between their neighbours. A sensor
without variance, or with next to no readings, has no moments: its cells are independent of all other sensors and follow
one another like a slow Ornstein-Uhlenbeck process, so that its holes are interpolated once it moves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Variance of a sensor's free level, in variances of its cells within a window. Larger ones leave an observed sensor's
# answers as they are, and cost the precision matrix digits.
LEVEL_VARIANCE = 1e2
_LEAST_VARIANCE = 1e-8  # variance of a cell, in squared scales of its sensor; a sensor below it counts as constant
_LEAST_READINGS = 1.0  # readings a window, on average; a sensor with fewer has no moments of its own
_CALM = 0.1  # scales; a window that varies less is as much noise as shape
_ROWS_AT_A_TIME = 4096


class Moments:
    """Sums over windows, from which covariances with different regularisers are computed."""

    def __init__(self, sensors: int, steps: int) -> None:
        """Start at zero.

        Args:
            sensors: C.
            steps: T, steps of a window.
        """
        self.sensors, self.steps = sensors, steps
        cells = sensors * steps
        self._products, self._pairs = np.zeros((cells, cells)), np.zeros((cells, cells))
        self._by_lag: Doubles | None = None
        self._clipped: dict[float, Doubles] = {}  # by shrinkage: eigenvalues of many cells take seconds
        self._by_sensor: dict[float, Doubles] = {}  # variances of a cell, by shrinkage
        self.windows = 0

    def add(self, values: Doubles, observed: Bools) -> None:
        """Add windows.

        Args:
            values: float64 [n, C, T], in scales of their sensors; ignored where not observed.
            observed: bool [n, C, T].
        """
        self._by_lag = None
        self._clipped, self._by_sensor = {}, {}
        for start in range(0, len(values), _ROWS_AT_A_TIME):
            part = slice(start, start + _ROWS_AT_A_TIME)
            centred = without_level(values[part], observed[part]).reshape(-1, self.sensors * self.steps)
            self._products += centred.T @ centred
            if observed[part].all():
                self._pairs += len(centred)
            else:
                seen = observed[part].reshape(centred.shape).astype(np.float32)  # exact for counts below 2^24
                self._pairs += seen.T @ seen
        self.windows += len(values)

    def covariance(self, *, shrinkage: float, ridge: float, distance: float = 0.0) -> Doubles:
        """Return a positive definite covariance [D, D] of windows less their levels, in numbers that float32 holds.

        Rounding changes each number by 6e-8 of a cell's variance at most. Independent errors of this size move an
        eigenvalue by 2 sqrt(D) times as much, 6e-6 for D = 2,500; half the least ridge is 5e-5.

        Args:
            shrinkage: share of the average over lags, in [0, 1].
            ridge: added to the diagonal, in variances of a cell; above 0.
            distance: share by which covariances of different sensors are reduced, in [0, 1].

        Raises:
            ValueError: there are no windows.
        """
        if not self.windows:
            raise ValueError("expected windows, found none")
        mixed, by_sensor = self._mixed(shrinkage)
        self._by_sensor[shrinkage] = by_sensor
        floor = ridge * by_sensor.repeat(self.steps)
        if shrinkage not in self._clipped and not _is_positive(mixed + np.diag(floor / 2)):
            self._clipped[shrinkage] = _without_negative_eigenvalues(mixed, self.sensors)
        matrix = kept_apart(self._clipped.get(shrinkage, mixed), self.sensors, distance)
        return (matrix + np.diag(floor)).astype(np.float32).astype(np.float64)

    def level_variance(self, *, shrinkage: float) -> Doubles:
        """Return the variance of each sensor's free level [C]."""
        if shrinkage not in self._by_sensor:
            self._by_sensor[shrinkage] = self._mixed(shrinkage)[1]
        return np.multiply(LEVEL_VARIANCE, self._by_sensor[shrinkage])

    def _mixed(self, shrinkage: float) -> tuple[Doubles, Doubles]:
        """The shrunk moments [D, D], and the variance of a cell of each sensor [C]."""
        if self._by_lag is None:
            self._by_lag = self._average_over_lags()
        known = self._pairs > 0
        pairwise = np.divide(self._products, self._pairs, out=self._by_lag.copy(), where=known)
        mixed = (1.0 - shrinkage) * pairwise + shrinkage * self._by_lag
        mixed = (mixed + mixed.T) / 2
        return mixed, self._without_moments(mixed)

    def _without_moments(self, mixed: Doubles) -> Doubles:
        """Give sensors without moments a slow process of their own, in place; return the variance of a cell [C]."""
        shape = (self.sensors, self.steps, self.sensors, self.steps)
        blocks = mixed.reshape(shape)
        by_sensor = np.diagonal(mixed).reshape(self.sensors, self.steps).mean(axis=1)
        readings = np.diagonal(self._pairs).reshape(self.sensors, self.steps).sum(axis=1) / self.windows
        step = np.arange(self.steps)
        slow = np.exp(-np.abs(step[:, None] - step) / self.steps)
        for sensor in np.flatnonzero((by_sensor < _LEAST_VARIANCE) | (readings < _LEAST_READINGS)):
            blocks[sensor] = 0.0
            blocks[:, :, sensor] = 0.0
            blocks[sensor, :, sensor] = slow
            by_sensor[sensor] = 1.0
        return np.asarray(by_sensor, np.float64)

    def _average_over_lags(self) -> Doubles:
        shape = (self.sensors, self.steps, self.sensors, self.steps)
        products, pairs = self._products.reshape(shape), self._pairs.reshape(shape)
        step = np.arange(self.steps)
        count = np.zeros((self.sensors, self.sensors, self.steps))
        mean = np.zeros_like(count)
        for lag in range(self.steps):
            early, late = step[: self.steps - lag], step[lag:]
            count[:, :, lag] = pairs[:, early, :, late].sum(axis=0)  # [C, C]: advanced indices come first
            mean[:, :, lag] = products[:, early, :, late].sum(axis=0) / np.maximum(count[:, :, lag], 1.0)
        for a, b in np.argwhere((count == 0).any(axis=2) & (count > 0).any(axis=2)):
            seen = np.flatnonzero(count[a, b])
            mean[a, b] = np.interp(step, seen, mean[a, b, seen])
        out = np.zeros(shape)
        for lag in range(self.steps):
            early, late = step[: self.steps - lag], step[lag:]
            out[:, early, :, late] = mean[:, :, lag]
            out[:, late, :, early] = mean[:, :, lag].T
        return out.reshape(self._products.shape)


def kept_apart(covariance: Doubles, sensors: int, distance: float) -> Doubles:
    """Return the covariance [D, D] with covariances of different sensors reduced by a share; it stays positive."""
    if not distance:
        return covariance
    steps = len(covariance) // sensors
    out = (1.0 - distance) * covariance
    for place in range(sensors):
        block = slice(place * steps, (place + 1) * steps)
        out[block, block] = covariance[block, block]
    return out


def with_free_levels(covariance: Doubles, variance: Doubles) -> Doubles:
    """Return the covariance [D, D] with a level of variance [C] added to all steps of each sensor."""
    steps = len(covariance) // len(variance)
    out = covariance.copy()
    for place, level in enumerate(variance):
        block = slice(place * steps, (place + 1) * steps)
        out[block, block] += level
    return out


def at_equal_deviations(values: Doubles, observed: Bools) -> Doubles:
    """Return windows [n, C, T] less their levels, divided by the root mean square of all observed cells of the window.

    The conditional mean does not change when a whole window is scaled, so every window tells as much about it. In plain
    moments, the few windows that vary most would decide. Windows that vary below a tenth of a scale keep less weight.
    """
    centred = without_level(values, observed)
    count = np.maximum(observed.sum(axis=(1, 2)), 1)
    deviation = np.sqrt(np.einsum("nct,nct->n", centred, centred) / count)
    centred /= np.maximum(deviation, _CALM)[:, None, None]
    return centred


def without_level(values: Doubles, observed: Bools) -> Doubles:
    """Return the values less each sensor's mean over the observed cells of its window, 0 where not observed."""
    count = observed.sum(axis=2, keepdims=True)
    total = np.where(observed, values, 0.0).sum(axis=2, keepdims=True)
    return np.where(observed, values - total / np.maximum(count, 1), 0.0)


def _is_positive(matrix: Doubles) -> bool:
    try:
        np.linalg.cholesky(matrix)  # a twentieth of the time of the eigenvalues
    except np.linalg.LinAlgError:
        return False
    return True


def _without_negative_eigenvalues(matrix: Doubles, sensors: int) -> Doubles:
    """Return the matrix [D, D] with eigenvalues of 0 or more.

    Sensors that share nothing with others still do not. Rounding errors would link them, and a sensor that was constant
    in training may later be a billion scales away.
    """
    value, vector = np.linalg.eigh(matrix)
    clipped = (vector * np.maximum(value, 0.0)) @ vector.T
    shape = (sensors, len(matrix) // sensors, sensors, len(matrix) // sensors)
    linked = (matrix.reshape(shape) != 0.0).any(axis=(1, 3))
    alone = (linked & ~np.eye(sensors, dtype=np.bool_)).sum(axis=1) == 0
    apart = (alone[:, None] | alone) & ~np.eye(sensors, dtype=np.bool_)
    together = np.where(apart[:, None, :, None], 0.0, ((clipped + clipped.T) / 2).reshape(shape))
    return np.asarray(together.reshape(matrix.shape), np.float64)
