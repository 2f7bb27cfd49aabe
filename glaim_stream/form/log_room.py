"""Bounds of an answer by logarithms: an exponential of what is extrapolated far away may be a huge value.

An answer leaves the range of its sensor's observed cells in the window only as far as four deviations of the plain
answer, which is made without logarithms, and its deviation is at most four of these.

The plain answer costs as much as the other, and as a rule it changes nothing. It is not needed where an answer is in
the observed range and its deviation is below four times the least that the plain one can be: what is left of the
cell's variance when all other cells are known. That is its *room*. A wider one would change values, and gain little:
with an infinite one, the plant's windows in the stream are filled at most 1.4 times as fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

_DEVIATIONS = 4.0  # of the plain answer
_SURELY = 0.99  # of the least deviation, which has rounding errors


@dataclass(frozen=True, slots=True)
class LogRoom:
    """The rooms of windows.

    low, high: float64 [n, C, 1], of means; none where no cell of the sensor is observed.
    widest: float64 [n, C, k], of deviations.
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
            least_deviation: float64 [n, C, k], of the plain answer.
        """
        low = np.where(observed, values, np.inf).min(axis=2, keepdims=True)
        high = np.where(observed, values, -np.inf).max(axis=2, keepdims=True)
        return cls(low, high, _SURELY * _DEVIATIONS * least_deviation)

    def taken(self, rows: Bools) -> Self:
        """Return the rooms of some windows."""
        return type(self)(self.low[rows], self.high[rows], self.widest[rows])

    def left_by(self, mean: Doubles, deviation: Doubles) -> Bools:
        """Return which answers [n, C, k] are not in their room."""
        return (mean < self.low) | (mean > self.high) | (deviation > self.widest)

    def bounded(
        self, mean: Doubles, deviation: Doubles, plain_mean: Doubles, plain_deviation: Doubles
    ) -> tuple[Doubles, Doubles]:
        """Return answers [n, C, k] within their bounds, given the plain ones."""
        margin = _DEVIATIONS * plain_deviation
        low, high = np.minimum(plain_mean - margin, self.low), np.maximum(plain_mean + margin, self.high)
        return np.clip(mean, low, high), np.minimum(deviation, margin)
