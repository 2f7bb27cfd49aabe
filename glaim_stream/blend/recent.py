"""Sums with an exponential memory that contain nothing older than a horizon. Arithmetic only.

A sum that only decays never forgets completely. So a new sum starts at every half horizon of the step count, and the
sum that is read started a half horizon before the newest: nothing older than the horizon is in it, not even in its last
bit. A state that ran for years equals a state that was rebuilt from the addends of the last horizon.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


class RecentSums:
    """Two sums of any shape: the old one started half a horizon before the current half, the young one with it."""

    def __init__(self, shape: tuple[int, ...], *, memory: float, horizon: int) -> None:
        """Start with both sums at zero.

        Args:
            shape: shape of one sum.
            memory: factor by which an addend shrinks per step, in (0, 1].
            horizon: steps after which an addend is forgotten; even, at least 2.

        Raises:
            ValueError: an argument is out of its range.
        """
        if not 0 < memory <= 1:
            raise ValueError(f"expected a memory in (0, 1], found {memory}")
        if horizon < 2 or horizon % 2:
            raise ValueError(f"expected an even horizon of 2 steps or more, found {horizon}")
        self.memory, self.horizon = memory, horizon
        self.values: Doubles = np.zeros((2, *shape))  # [old, young]; callers add to them after `turn`
        self._half = horizon // 2
        self._block = -1  # step // half of the last turn; -1 before the first
        self._last: int | None = None

    def turn(self, step: int) -> tuple[float, float]:
        """Advance to `step`; returns the factors by which to multiply addends to the old and to the young sum.

        An addend of step s is multiplied by memory^-(s - start of its sum). The sums themselves are never rescaled, so
        a rebuilt state adds the same numbers in the same order.

        Raises:
            ValueError: `step` is not later than that of the last turn.
        """
        if self._last is not None and step <= self._last:
            raise ValueError(f"expected errors of a step after {self._last}, found {step}")
        block = step // self._half
        if self._last is None or block != self._block:
            follows = self._last is not None and block == self._block + 1
            self.values[0] = self.values[1] if follows else 0.0
            self.values[1] = 0.0
        self._block, self._last = block, step
        age = step - block * self._half  # steps since the young sum started; the old one started half a horizon earlier
        return self.memory ** -(age + self._half), self.memory**-age

    def read(self, step: int) -> Doubles | None:
        """The decayed sum at `step`; None if nothing was added within the horizon.

        Raises:
            ValueError: `step` is not later than that of the last turn: its own addends would count.
        """
        if self._last is None:
            return None
        if step <= self._last:
            raise ValueError(f"expected a step after {self._last}, whose errors are known, found {step}")
        passed = step // self._half - self._block  # half horizons started since the last turn
        if passed > 1:
            return None
        began = (self._block - 1 + passed) * self._half
        found: Doubles = self.values[passed] * self.memory ** (step - began)
        return found
