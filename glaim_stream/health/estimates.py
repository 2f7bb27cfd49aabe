"""Leave-one-out estimates by the closed form: each sensor's slow course, given only the courses of the others.

The closed form knows how the cells of a window vary around the sensors' levels, and how the levels vary from window to
window. Together they give the covariance [C, C] of means over a block of steps. With its inverse P, the residual of
sensor c is (P z)_c / P_cc, where z are deviations from the group's levels: the difference from the mean given all
others (Whittaker, 1990, Graphical models in applied multivariate statistics, section 5.8). A sensor's own past is not
used, because a drift would take its estimate along.

The probes of the stream give no such residuals: they hide a sensor's newest steps, and its older ones remain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form import ClosedForm
from glaim_stream.health.series import GridSeries

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BLOCK = 8  # steps
FEWEST = 3  # readings from which a block has a mean
_MOST = 1e6  # scales; a residual counts as no larger
_RIDGE = 0.01  # share of each sensor's variance that no other sensor explains


_KEPT = 64  # patterns of missing sensors with weights in the cache


@dataclass(frozen=True)
class Estimates:
    """The covariance of block means.

    scale: float64 [C], deviation of a block mean from the group's level.
    correlation: float64 [C, C], positive definite.
    """

    scale: Doubles
    correlation: Doubles

    def residuals(self, deviation: Doubles, left_out: Bools | None = None) -> Doubles:
        """Return residuals [C, n] in scales; NaN where a block has no mean.

        With missing sensors, estimates are less certain: residuals are scaled down to the deviation that they have
        when all sensors are known.

        Args:
            deviation: float64 [C, n], block means less the group's levels, sensor units; NaN where there is none.
            left_out: bool [C], sensors that estimate no other one.
        """
        return self._residuals(deviation, left_out, None)

    def scores(self, deviation: Doubles, limit: Doubles, left_out: Bools | None = None) -> Doubles:
        """Return residuals in limits instead of scales.

        A limit was learned while the others were known. A tight limit shows that the sensor follows from them more
        exactly than the covariance knows, which no longer holds without them: for the share of the variance that they
        explained, the limit is as wide as the widest of the group, in deviations.

        Args:
            deviation: float64 [C, n], argument of `residuals`.
            limit: float64 [C], limits of residuals when all sensors are known; infinite: not judged.
            left_out: bool [C], argument of `residuals`.
        """
        return self._residuals(deviation, left_out, limit)

    def _residuals(self, deviation: Doubles, left_out: Bools | None, limit: Doubles | None) -> Doubles:
        known = np.isfinite(deviation)
        feeds = known if left_out is None else known & ~left_out[:, None]
        scaled = np.where(known, deviation, 0.0) / self.scale[:, None]
        out = np.full(deviation.shape, np.nan)
        for pattern, blocks in _patterns(feeds):
            weights, share = self._weights_of(pattern)
            estimate = np.zeros((len(scaled), len(blocks)))
            for sensor in np.flatnonzero(pattern):  # the bits of a product of matrices depend on its shape
                estimate += weights[:, sensor, None] * scaled[sensor, blocks]
            unit = 1.0 / share if limit is None else self._widened(limit, share) / share
            out[:, blocks] = (scaled[:, blocks] - estimate) / unit[:, None]
        return np.clip(np.where(known, out, np.nan), -_MOST, _MOST)

    def _widened(self, limit: Doubles, share: Doubles) -> Doubles:
        """Limits [C] of residuals that are scaled down to these shares."""
        explained = 1.0 - share**2
        if not explained.any():
            return limit
        judged = np.isfinite(limit)
        deviations = np.sqrt(self._least_variance)
        widest = (limit / deviations)[judged].max(initial=0.0)
        with np.errstate(invalid="ignore"):
            wide = np.sqrt((share * limit) ** 2 + explained * np.maximum(limit, widest * deviations) ** 2)
        return np.where(judged & (explained > 0), wide, limit)

    def _weights_of(self, pattern: Bools) -> tuple[Doubles, Doubles]:
        key = pattern.tobytes()
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            found = self._kept[key] = self._weights(pattern)
        return found

    @cached_property
    def _kept(self) -> dict[bytes, tuple[Doubles, Doubles]]:
        """Cache: weights of the patterns that were seen last."""
        return {}

    def _weights(self, pattern: Bools) -> tuple[Doubles, Doubles]:
        """The estimates of all sensors by the sensors of a pattern.

        Returns:
            Weights [C, C] of the sensors of the pattern, without their own; and the deviation of each residual [C] when
            all sensors are known, as a share of its deviation with this pattern.
        """
        weights, variance = np.zeros(self.correlation.shape), np.diagonal(self.correlation).copy()
        inside, outside = np.flatnonzero(pattern), np.flatnonzero(~pattern)
        if len(inside):
            precision = np.linalg.inv(self.correlation[np.ix_(inside, inside)])
            own = np.diagonal(precision)
            weights[np.ix_(inside, inside)] = np.eye(len(inside)) - precision / own[:, None]
            variance[inside] = 1.0 / own
            across = self.correlation[np.ix_(outside, inside)]
            weights[np.ix_(outside, inside)] = across @ precision
            variance[outside] -= (weights[np.ix_(outside, inside)] * across).sum(axis=1)
        return weights, np.sqrt(np.minimum(self._least_variance / variance, 1.0))

    @cached_property
    def _least_variance(self) -> Doubles:
        """Variance of each residual [C] when all sensors are known."""
        return 1.0 / np.diagonal(np.linalg.inv(self.correlation))


def _patterns(feeds: Bools) -> Iterator[tuple[Bools, Ints]]:
    """Each pattern of a column, bool [C], and the columns [n] with this pattern."""
    columns = np.ascontiguousarray(feeds.T)
    if not columns.size:
        return
    if (columns == columns[0]).all():
        yield columns[0], np.arange(len(columns))
        return
    # Strings of one byte a sensor: several times as fast as rows of an array.
    names = columns.view(f"S{columns.shape[1]}").reshape(-1)
    _, first, which = np.unique(names, return_index=True, return_inverse=True)
    for number, column in enumerate(first.tolist()):
        yield columns[column], np.flatnonzero(which == number)


def estimates_of(form: ClosedForm) -> Estimates:
    """Return the covariance of block means that a closed form implies."""
    variant = next(each for each in form.variants if not each.transform.logarithm.any())
    sensors, span = len(form.sensors), form.span
    block = min(BLOCK, span)
    within = variant.covariance.reshape(sensors, span, sensors, span)[:, -block:, :, -block:].mean(axis=(1, 3))
    covariance = within + variant.levels.covariance
    deviation = np.sqrt(np.diagonal(covariance))
    correlation = covariance / deviation[:, None] / deviation
    correlation = (correlation + correlation.T) / 2 + _RIDGE * np.eye(sensors)
    return Estimates(deviation * variant.transform.scale, correlation)


def block_means(series: GridSeries, left_out: Bools | None = None) -> tuple[Doubles, int]:
    """Return means of whole blocks [C, n], NaN with few readings, and the index of the first block's first step.

    Args:
        series: readings; blocks begin at steps with a multiple of BLOCK as their number.
        left_out: bool [C, N], readings that do not count.
    """
    first = -series.first % BLOCK
    count = max(0, (series.steps - first) // BLOCK)
    cut = slice(first, first + count * BLOCK)
    seen = series.observed if left_out is None else series.observed & ~left_out
    shape = (len(seen), count, BLOCK)
    used = seen[:, cut].reshape(shape)
    with np.errstate(over="ignore", invalid="ignore"):  # a mean that is not finite counts as missing
        total = np.where(used, series.values[:, cut].reshape(shape), 0.0).sum(axis=2)
    readings = used.sum(axis=2)
    return np.where(readings >= FEWEST, total / np.maximum(readings, 1), np.nan), first
