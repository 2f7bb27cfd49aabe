"""Sums that forget: by a factor a step, and wholly after a horizon. Arithmetic only.

A sum that forgets by multiplication never quite forgets. So the sums begin anew at every half horizon of the step
count, and are read from those that began one half earlier: nothing older than the horizon is in them, to the bit. A
state that ran for years, and one rebuilt from what the last horizon brought, hold the same numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


class RecentSums:
    """Two sums of any shape: the old one began at the half before the current one, the young one at the current."""

    def __init__(self, shape: tuple[int, ...], *, memory: float, horizon: int) -> None:
        """Know nothing yet.

        Args:
            shape: Of one sum.
            memory: What was added shrinks by this factor a step, in (0, 1].
            horizon: Steps after which it is forgotten; even, 2 or more.

        Raises:
            ValueError: an argument out of its range.
        """
        if not 0 < memory <= 1:
            raise ValueError(f"expected a memory in (0, 1], found {memory}")
        if horizon < 2 or horizon % 2:
            raise ValueError(f"expected an even horizon of 2 steps or more, found {horizon}")
        self.memory, self.horizon = memory, horizon
        self.values: Doubles = np.zeros((2, *shape))  # [old, young]; to be added to after `turn`
        self._half = horizon // 2
        self._block = -1  # of the last turn: its step // half; -1 before the first
        self._last: int | None = None

    def turn(self, step: int) -> tuple[float, float]:
        """Go on to `step`; what is added to the old and the young sum then is to be multiplied by these factors.

        An addend of a step s goes in times memory^-(s - start of its sum), so that adding is all that is ever done to
        a sum, and a rebuilt state adds the same numbers in the same order.

        Raises:
            ValueError: `step` is not later than the last one.
        """
        if self._last is not None and step <= self._last:
            raise ValueError(f"expected errors of a step after {self._last}, found {step}")
        block = step // self._half
        if self._last is None or block != self._block:
            follows = self._last is not None and block == self._block + 1
            self.values[0] = self.values[1] if follows else 0.0
            self.values[1] = 0.0
        self._block, self._last = block, step
        age = step - block * self._half  # since the young sum began; the old one began half a horizon before
        return self.memory ** -(age + self._half), self.memory**-age

    def read(self, step: int) -> Doubles | None:
        """The sum as it stands at `step`; None where nothing is remembered.

        Raises:
            ValueError: `step` is not later than the last turn: what belongs to it would be used.
        """
        if self._last is None:
            return None
        if step <= self._last:
            raise ValueError(f"expected a step after {self._last}, whose errors are known, found {step}")
        passed = step // self._half - self._block  # halves begun since the last turn
        if passed > 1:
            return None
        began = (self._block - 1 + passed) * self._half
        found: Doubles = self.values[passed] * self.memory ** (step - began)
        return found
