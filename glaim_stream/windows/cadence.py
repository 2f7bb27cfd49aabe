"""Sensors whose interval exceeds their model's step: when they are due, and which holes await a final row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.windows.rings import Rings

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


class SlowSensors:
    """The cadences of a model's sensors, and their holes that were published provisionally.

    A late reading can fill an interval after its hole was published. The interval then has no hole any more, but the
    provisional row still needs a final one, so the cell is remembered until that row is made.
    """

    def __init__(self, rings: Rings, cadence: Ints, *, revise_after: int, ahead: int, max_gap: int) -> None:
        """Start with no hole published.

        Args:
            rings: state of the model's groups.
            cadence: int64 [C], steps of each sensor's interval; 1: due at every step.
            revise_after: steps until a hole is final.
            ahead: open steps that readings may lie in.
            max_gap: steps beyond those that the wall clock may publish.
        """
        self._cadence = cadence
        # From closable - revise_after, whose final rows are due next, to closable + ahead + max_gap, the newest step
        # that the wall clock may publish: max_gap + 1 after the newest one that can hold a reading.
        self._length = revise_after + ahead + max_gap + 1
        self._awaits_final = rings.attach((len(cadence), self._length), np.bool_)

    def holes(self, step: int, row: Ints, sensor: Ints, age: Ints) -> Bools:
        """Find the holes among cells of a step that are not observed, bool [n]; meaningless for observed ones.

        A cell is a hole if the sensor's interval ends at this step without a reading, or if it was published as one.

        Args:
            step: step of all the cells.
            row: int64 [n], row of the rings.
            sensor: int64 [n].
            age: int64 [n], gap age.
        """
        cadence = self._cadence[sensor]
        holes: Bools = ((step + 1) % cadence == 0) & (age >= cadence)
        holes |= self._awaits_final.array[row, sensor, step % self._length]
        return holes

    def published(self, step: int, row: Ints, sensor: Ints) -> None:
        """Remember holes that were published provisionally and await their final row."""
        self._awaits_final.array[row, sensor, step % self._length] = True

    def finalised(self, step: int) -> None:
        """Forget the holes of a step whose final rows are made."""
        self._awaits_final.array[:, :, step % self._length] = False
