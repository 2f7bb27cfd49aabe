"""Transformations of a window before the Gaussian sees it, and of the answers back.

The order is: the logarithm of the sensors that grow in proportion; division by a scale; subtraction of a profile of the
time of day. The level is left in; it is free in every window.

*Scale.* The trained scale of each sensor, which lets a calm window count as calm. A window that varies far more or far
less than any in training comes from a group of another kind, and is scaled by its own deviation. With `by_window` every
window is, which suits groups whose sensors differ in their scales. A deviation over fewer than `LEAST_CELLS` cells, or
next to nothing, is no scale: the trained one holds, times the median factor by which the window's other sensors differ.

*Logarithm.* An answer is the exponential of the mean of the logarithm, which is the median, not the mean, of the value.
The mean would be larger by exp(variance / 2), which grows without bound if little is known; the median is as likely too
high as too low, and minimises the absolute error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

LEAST_CELLS = 8  # cells from which a window's own deviation is a scale
_FAR = 4.0  # factor beyond the trained deviations
_BEYOND = 0.5  # share of the trained range of logarithms; a window further beyond it goes without them
_WIDEST = 3.0  # most deviations of a logarithm, so that bands stay finite


@dataclass(frozen=True)
class Transform:
    """The transformation of one variant.

    logarithm: bool [C], sensors that are filled by logarithms.
    low, high: float64 [C], trained range of the logarithms; not used for other sensors.
    scale: float64 [C], above 0.
    calmest, wildest: float64 [C], range of the deviations of training windows, in the unit of `scale`. `wildest` is 0
        for a sensor that was constant or absent, and infinite for one that never had enough readings in a window.
    profile: float64 [C, bins] in scales, or None.
    by_window: True if every window is scaled by its own deviation.
    """

    logarithm: Bools
    low: Doubles
    high: Doubles
    scale: Doubles
    calmest: Doubles
    wildest: Doubles
    profile: Doubles | None = None
    by_window: bool = False

    def suits(self, values: Doubles, observed: Bools) -> Bools:
        """Return the windows [n] with logarithms in or near the trained range; all if no sensor has a logarithm."""
        if not self.logarithm.any():
            return np.ones(len(values), np.bool_)
        margin = _BEYOND * (self.high - self.low) + 1e-9
        with np.errstate(over="ignore"):
            least, most = np.exp(self.low - margin)[:, None], np.exp(self.high + margin)[:, None]
        inside = (values >= least) & (values <= most) & (values > 0)
        out: Bools = np.all(inside | ~observed | ~self.logarithm[:, None], axis=(1, 2))
        return out

    def forward(self, values: Doubles, observed: Bools, bins: Ints | None) -> tuple[Doubles, Doubles]:
        """Return transformed windows [n, C, T], 0 where not observed, and their scales [n, C].

        Args:
            values: float64 [n, C, T], sensor units; ignored where not observed.
            observed: bool [n, C, T].
            bins: int64 [n, T], phases of the steps; not used without a profile.
        """
        out = self._logged(values, observed)
        scale = self._scales(out, observed)
        out /= scale[:, :, None]
        if self.profile is not None and bins is not None:
            out -= self._profiles(bins)
            out *= observed
        return out, scale

    def scales(self, values: Doubles, observed: Bools) -> Doubles:
        """Return the scales [n, C] of windows, as `forward` does."""
        return self._scales(self._logged(values, observed), observed)

    def back(
        self, mean: Doubles, deviation: Doubles, scale: Doubles, bins: Ints | None, steps: slice
    ) -> tuple[Doubles, Doubles]:
        """Return means and deviations in sensor units.

        Args:
            mean: float64 [n, C, k], transformed, with the level; overwritten.
            deviation: float64 [n, C, k], transformed; overwritten.
            scale: float64 [n, C], result of `forward`.
            bins: int64 [n, T], phases of all steps.
            steps: the k steps among the T.
        """
        if self.profile is not None and bins is not None:
            mean += self._profiles(bins[:, steps])
        mean *= scale[:, :, None]
        deviation *= scale[:, :, None]
        if self.logarithm.any():
            chosen = self.logarithm[:, None]
            margin = _BEYOND * (self.high - self.low) + 1e-9
            bounded = np.clip(mean, (self.low - margin)[:, None], (self.high + margin)[:, None])
            median = np.exp(np.where(chosen, bounded, 0.0))
            deviation = np.where(chosen, median * np.sinh(np.minimum(deviation, _WIDEST)), deviation)
            mean = np.where(chosen, median, mean)
        return mean, deviation

    def _profiles(self, bins: Ints) -> Doubles:
        assert self.profile is not None
        return np.moveaxis(self.profile[:, bins], 0, 1)

    def _logged(self, values: Doubles, observed: Bools) -> Doubles:
        out = np.where(observed, values, 0.0)
        if not self.logarithm.any():
            return out
        return np.where(self.logarithm[:, None] & observed, np.log(np.where(observed & (out > 0), out, 1.0)), out)

    def _scales(self, out: Doubles, observed: Bools) -> Doubles:
        own, count = deviations(out, observed)
        valid = (count >= LEAST_CELLS) & (own > 0)
        far = (own > _FAR * self.wildest) | (own < self.calmest / _FAR)
        chosen = valid if self.by_window else valid & far
        if not chosen.any():
            return np.broadcast_to(self.scale, own.shape)
        # Sensors whose own trained scale holds count as 1: a stuck sensor says nothing about the others. A sensor
        # without a trained scale, because it was constant or absent, does not count.
        compared = valid & (self.wildest > 0)
        ratio = np.where(compared, np.where(chosen, own / self.scale, 1.0), np.nan)
        factor = np.ones(len(out))
        some = (chosen & compared).any(axis=1)
        factor[some] = np.nanmedian(ratio[some], axis=1)
        # In a strange window, a sensor without a scale of its own follows the other sensors.
        rest = np.where(valid & ~chosen, 1.0, factor[:, None]) * self.scale
        return np.where(chosen, own, rest)


def deviations(values: Doubles, observed: Bools) -> tuple[Doubles, Ints]:
    """Return each sensor's deviation around its mean [n, C], 0 if it is rounding error, and its observed cells.

    Args:
        values: float64 [n, C, T], 0 where not observed.
        observed: bool [n, C, T].
    """
    count = observed.sum(axis=2)
    divisor = np.maximum(count, 1)
    mean = values.sum(axis=2) / divisor  # a sum with `where` costs five times as much
    centred = values - mean[:, :, None]
    centred *= observed
    deviation = np.sqrt(np.einsum("nct,nct->nc", centred, centred) / divisor)
    return np.where(deviation > 1e-12 * np.abs(mean), deviation, 0.0), count
