"""Bounds of answers by logarithms: the exponential of a far extrapolation may be a huge value.

An answer leaves the range of its sensor's observed cells in the window by at most four deviations of the plain answer,
which is made without logarithms, and its deviation is at most four of these.

The plain answer costs as much as the other, and usually changes nothing. It is not needed if an answer is in the
observed range and its deviation is below four times the least that the plain deviation can be: the cell's deviation
when all other cells are known. This is the answer's *room*. A wider room would change values, and gain little: with an
infinite one, the plant's windows in the stream are filled at most 1.4 times as fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

_DEVIATIONS = 4.0  # largest distance from the plain answer, in its deviations
_SURELY = 0.99  # share of the least deviation; the rest is for its rounding errors


@dataclass(frozen=True, slots=True)
class LogRoom:
    """The rooms of windows.

    low, high: float64 [n, C, 1], bounds of means; empty range if no cell of the sensor is observed.
    widest: float64 [n, C, k], largest deviations.
    """

    low: Doubles
    high: Doubles
    widest: Doubles

    @classmethod
    def of(cls, values: Doubles, observed: Bools, least_deviation: Doubles) -> Self:
        """Find the rooms.

        Args:
            values: float64 [n, C, L], sensor units.
            observed: bool [n, C, L].
            least_deviation: float64 [n, C, k], least deviation of the plain answer.
        """
        low = np.where(observed, values, np.inf).min(axis=2, keepdims=True)
        high = np.where(observed, values, -np.inf).max(axis=2, keepdims=True)
        return cls(low, high, _SURELY * _DEVIATIONS * least_deviation)

    def taken(self, rows: Bools) -> Self:
        """Return the rooms of some windows."""
        return type(self)(self.low[rows], self.high[rows], self.widest[rows])

    def left_by(self, mean: Doubles, deviation: Doubles) -> Bools:
        """Return the answers outside their room, bool [n, C, k]."""
        return (mean < self.low) | (mean > self.high) | (deviation > self.widest)

    def bounded(
        self, mean: Doubles, deviation: Doubles, plain_mean: Doubles, plain_deviation: Doubles
    ) -> tuple[Doubles, Doubles]:
        """Return answers [n, C, k] within their bounds, given the plain ones."""
        margin = _DEVIATIONS * plain_deviation
        low, high = np.minimum(plain_mean - margin, self.low), np.maximum(plain_mean + margin, self.high)
        return np.clip(mean, low, high), np.minimum(deviation, margin)
