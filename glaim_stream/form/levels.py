"""The long-run levels of sensors, used for sensors without an observed cell in a window.

A sensor's level in a window is free as long as one of its cells is observed. A silent sensor gets its expected level
given the levels of the other sensors, over the training windows of all groups. The others may be at levels never seen
together with it, as in a year that is higher than all before: then the expectation leaves the range of the levels that
were seen, by as much as the range at most, and half of its distance to the range is a part of its deviation. With that
share, 89 % of the 90 % bands hold for silent sensors of Illness, whose test part is higher than all of the training;
with a quarter 83 % hold, with all of it 94 %.

If the groups' levels differ and the others do not show which group a window belongs to, the expectation says little.
The level is declined then: the long-run level of a group at 10 is no value for one at 10,000.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

_RIDGE = 0.01  # variances of a level; overlapping windows count for fewer than their number
_MOST_AWAY = 0.125  # windows: largest distance of the mean observed step from the middle
_BEYOND = 0.5  # share of the distance to the levels that were seen, as a deviation
_MOST_DEVIATIONS = 2.0  # largest deviation of an expected level, in deviations of a group's levels around their mean


@dataclass(frozen=True)
class Levels:
    """The distribution of sensors' levels over windows.

    mean: float64 [C].
    covariance: float64 [C, C].
    own: float64 [C], deviation of a group's levels around the group's mean.
    lowest, highest: float64 [C], the range that was seen.
    """

    mean: Doubles
    covariance: Doubles
    own: Doubles
    lowest: Doubles
    highest: Doubles

    def complete(self, level: Doubles, known: Bools) -> tuple[Doubles, Doubles]:
        """Return levels [n, C] and the variances of the unknown ones; NaN where a level is declined.

        Args:
            level: float64 [n, C]; ignored where not known.
            known: bool [n, C].
        """
        level, variance = np.where(known, level, 0.0), np.zeros(level.shape)
        with_silent = np.flatnonzero(~known.all(axis=1))
        if not len(with_silent):
            return level, variance
        usable = self._usable(level, known)
        patterns, which = np.unique(usable[with_silent], axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            rows = with_silent[which.reshape(-1) == number]
            mean, spread = self._given(level[rows], pattern)
            silent = np.logical_not(known[rows])
            level[rows] = np.where(silent, mean, level[rows])
            variance[rows] = np.where(silent, spread, 0.0)
        stranger = np.logical_and(known.any(axis=1), ~usable.any(axis=1))
        level[np.logical_and(stranger[:, None], ~known)] = np.nan
        return level, variance

    def kept_apart(self, distance: float) -> Levels:
        """Return levels whose covariances are reduced by a share."""
        if not distance:
            return self
        reduced = (1.0 - distance) * self.covariance
        np.fill_diagonal(reduced, np.diagonal(self.covariance))
        return replace(self, covariance=reduced)

    def slopes(self, level: Doubles, known: Bools, sensor: int) -> Doubles:
        """Return the derivatives [C] of a silent sensor's expected level by the levels of one window.

        Args:
            level: float64 [C]; ignored where not known.
            known: bool [C].
            sensor: index of a sensor that is not known.
        """
        usable = self._usable(np.where(known, level, 0.0)[None], known[None])[0]
        slopes: Doubles = np.zeros(len(level))
        if usable.any():
            weights = _weights(self.covariance, usable)[:, sensor]
            mean = self.mean[sensor] + (level[usable] - self.mean[usable]) @ weights
            low, high = (bound[sensor] for bound in self._bounds)
            if low < mean < high:  # elsewhere the expectation is the bound
                slopes[usable] = weights
        return slopes

    @property
    def _bounds(self) -> tuple[Doubles, Doubles]:
        span = self.highest - self.lowest
        return self.lowest - span, self.highest + span

    def _usable(self, level: Doubles, known: Bools) -> Bools:
        """Known levels near those that were seen, bool [n, C]."""
        low, high = self._bounds
        usable: Bools = known & (level >= low) & (level <= high)
        return usable

    def _given(self, level: Doubles, pattern: Bools) -> tuple[Doubles, Doubles]:
        """Expectations and their variances, both [n, C], given the sensors of a pattern [C]."""
        spread, mean = np.diagonal(self.covariance).copy(), np.tile(self.mean, (len(level), 1))
        if pattern.any():
            weights = _weights(self.covariance, pattern)
            # Not a product of matrices, whose last bits depend on the number of windows.
            away = np.ascontiguousarray(level[:, pattern] - self.mean[pattern])
            mean += (away[:, :, None] * weights).sum(axis=1)
            spread = np.maximum(spread - (weights * self.covariance[pattern]).sum(axis=0), 0.0)
        variance = spread + (_BEYOND * (mean - np.clip(mean, self.lowest, self.highest))) ** 2
        mean = np.clip(mean, *self._bounds)
        mean[:, np.sqrt(spread) > _MOST_DEVIATIONS * self.own] = np.nan
        return mean, variance


def _of_all_windows(level: Doubles, known: Bools) -> tuple[Doubles, Doubles]:
    """Mean [C] and covariance [C, C] of levels [n, C] that are not all known.

    A sensor that was silent while the others moved elsewhere was seen with a part of their levels only, so moments of
    its known levels understate how far it follows them. Each sensor is completed by its regression on those that are
    known in more windows. This is the maximum likelihood if its windows are among theirs (Anderson 1957, Maximum
    likelihood estimates for a multivariate normal distribution when some observations are missing).
    """
    complete, left = level.copy(), np.zeros(level.shape[1])
    before: list[int] = []
    for sensor in np.argsort(-known.sum(axis=0), kind="stable").tolist():
        rows = known[:, sensor]
        if rows.any() and not rows.all():
            seen = complete[rows][:, [*before, sensor]]
            mean = seen.mean(axis=0)
            moments = (seen - mean).T @ (seen - mean) / len(seen)
            weights = _weights(moments, np.arange(len(mean)) < len(before))[:, -1]
            complete[~rows, sensor] = mean[-1] + (complete[~rows][:, before] - mean[:-1]) @ weights
            left[sensor] = (~rows).mean() * max(moments[-1, -1] - float(weights @ moments[:-1, -1]), 0.0)
        before.append(sensor)
    mean = complete.mean(axis=0)
    return mean, (complete - mean).T @ (complete - mean) / len(level) + np.diag(left)


def _of_whole_windows(observed: Bools) -> Bools:
    """Sensors whose cells [n, C, T] represent the whole window, bool [n, C]: their mean step is near its middle.

    A sensor that begins in the middle of a window has the level of one half, and the others that of both. If they
    moved meanwhile, such windows suggest that it does not follow them. Sensors without a better window keep them.
    """
    steps = np.arange(observed.shape[2]) - (observed.shape[2] - 1) / 2
    near = np.abs(observed @ steps) <= _MOST_AWAY * observed.shape[2] * observed.sum(axis=2)
    whole: Bools = near | ~(near & observed.any(axis=2)).any(axis=0)
    return whole


def _weights(covariance: Doubles, pattern: Bools) -> Doubles:
    """Weights [k, C] of the k levels of a pattern [C] in the expectation of each level."""
    system = with_ridge(covariance[np.ix_(pattern, pattern)])
    return np.linalg.solve(system, covariance[pattern]).astype(np.float64, copy=False)


def with_ridge(covariance: Doubles) -> Doubles:
    """Return a covariance of levels [C, C] that can be inverted."""
    scale = np.diagonal(covariance)
    return covariance + np.diag(_RIDGE * scale + np.where(scale > 0, 0.0, 1.0))


def levels_of(level: Doubles, observed: Bools, group: NDArray[np.int64]) -> Levels:
    """Return the distribution of levels that were seen.

    Args:
        level: float64 [n, C], levels in training windows; ignored where a sensor is silent.
        observed: bool [n, C, T], observed cells of these windows.
        group: int64 [n], the group of each window.
    """
    known = observed.sum(axis=2) > 0
    count = np.maximum(known.sum(axis=0), 1)
    filled = np.where(known, level, 0.0)
    mean, covariance = _of_all_windows(filled, known & _of_whole_windows(observed))
    within = np.zeros(level.shape[1])
    for number in np.unique(group):
        rows = group == number
        own = filled[rows].sum(axis=0) / np.maximum(known[rows].sum(axis=0), 1)
        within += np.where(known[rows], (level[rows] - own) ** 2, 0.0).sum(axis=0)
    never = ~known.any(axis=0)
    lowest = np.where(never, 0.0, np.where(known, level, np.inf).min(axis=0, initial=np.inf))
    highest = np.where(never, 0.0, np.where(known, level, -np.inf).max(axis=0, initial=-np.inf))
    return Levels(mean, covariance, np.where(never, -1.0, np.sqrt(within / count)), lowest, highest)
