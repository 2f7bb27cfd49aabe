"""Sensors slower than the step of their model: when they are due, and which of their holes await a last word. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.windows.rings import Rings

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


class SlowSensors:
    """The cadences of a model's sensors, and the holes that were published provisionally.

    A late reading may fill an interval after its hole was published. The hole is none any more, but its provisional
    row still waits for a final one; so it is remembered until then, by row of the rings.
    """

    def __init__(self, rings: Rings, cadence: Ints, *, revise_after: int, ahead: int, max_gap: int) -> None:
        """Begin with none.

        Args:
            rings: of the model's groups.
            cadence: int64 [C], steps of each sensor's interval; 1: due at each step.
            revise_after: steps until a hole's last word.
            ahead: open steps that readings may lie in.
            max_gap: so many steps beyond those the wall clock may publish.
        """
        self._cadence = cadence
        self._length = revise_after + ahead + max_gap + 2
        self._asked = rings.attach((len(cadence), self._length), np.bool_)

    def missing(self, step: int, row: Ints, sensor: Ints, age: Ints) -> Bools:
        """Which of the cells are holes: none was read in the interval that ends here, or so it was said before."""
        cadence = self._cadence[sensor]
        missing: Bools = ((step + 1) % cadence == 0) & (age >= cadence)
        missing |= self._asked.array[row, sensor, step % self._length] & (age > 0)
        return missing

    def ask(self, step: int, row: Ints, sensor: Ints) -> None:
        """Remember holes that were published and await their last word."""
        self._asked.array[row, sensor, step % self._length] = True

    def settle(self, step: int) -> None:
        """Forget the holes of a step that has had its last word."""
        self._asked.array[:, :, step % self._length] = False
