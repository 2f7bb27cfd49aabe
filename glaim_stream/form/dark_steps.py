"""Steps at which no sensor of the group was observed, and which of them the last value or the line fills better.

Where any sensor was observed at a step, it tells something about the others. At a dark step all that is known is the
past, and perhaps what came after. The conditional mean expects a return towards the window's level there. A series that
is close to a random walk does not return, and the last value, or the line between two readings, is the better answer
for it. Validation windows decide (`dark_choice`), by the number of steps to the nearest step with a reading, before the
newest reading and after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form.baselines import distances
from glaim_stream.form.kinds import Kind, simple_value

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

DISTANCES = (1, 2, 4, 8)  # the upper bounds of the classes of distance; one more class is above the last of them
NEWEST_PART = 4  # of a window's steps, the newest part to which the choice applies; validation has no gaps beyond it


@dataclass(frozen=True)
class DarkSteps:
    """Whether dark steps get the simple value instead of the form's answer, for each class of `DISTANCES`.

    between: where a reading follows: the line.
    after: where none does: the last value.
    """

    between: tuple[bool, ...]
    after: tuple[bool, ...]

    def __post_init__(self) -> None:
        """Refuse other choices.

        Raises:
            ValueError: they are not as many as the classes, or not True or False.
        """
        for chosen in (self.between, self.after):
            if len(chosen) != len(DISTANCES) + 1 or not all(isinstance(each, bool) for each in chosen):
                raise ValueError(f"expected {len(DISTANCES) + 1} choices, found {chosen}")

    def simple(self, observed: Bools, newest: int) -> Bools:
        """Return which of the newest steps get the simple value, bool [n, newest].

        None does where more than a quarter of the window is filled.

        Args:
            observed: bool [n, C, T].
            newest: number of newest steps that are filled.
        """
        if newest > observed.shape[2] // NEWEST_PART:
            return np.zeros((len(observed), newest), np.bool_)
        place, distance = (each[:, -newest:] for each in places(observed))
        dark = ~observed[:, :, -newest:].any(axis=1)
        return np.asarray(dark & np.array([self.between, self.after])[place, distance], np.bool_)

    def apply(self, mean: Doubles, kinds: Sequence[Kind], values: Doubles, complete: Bools, observed: Bools) -> None:
        """Replace answers at these steps with the last value or the line, in place.

        Args:
            mean: float64 [n, C, k], answers to the newest steps.
            kinds: of the sensors.
            values: float64 [n, C, T], with the cells that follow from relations.
            complete: bool [n, C, T], which cells of these are known.
            observed: bool [n, C, T], which of these are readings.
        """
        newest = mean.shape[2]
        lit = np.asarray(observed[:, :, -newest:].any(axis=1), np.bool_)
        rows = np.flatnonzero(~lit.all(axis=1))
        chosen = self.simple(observed[rows], newest)
        rows, chosen = rows[chosen.any(axis=1)], chosen[chosen.any(axis=1)]
        if len(rows):
            value = simple_value(kinds, values[rows], complete[rows])[:, :, -newest:]
            replaced = chosen[:, None] & ~complete[rows, :, -newest:] & np.isfinite(value)
            mean[rows] = np.where(replaced, value, mean[rows])


def places(observed: Bools) -> tuple[Ints, Ints]:
    """Return for every step [n, T] whether no reading follows (1) or one does (0), and the class of its distance.

    Args:
        observed: bool [n, C, T].
    """
    lit = np.asarray(observed.any(axis=1), np.bool_)
    before, after = distances(lit)
    return np.isinf(after).astype(np.int64), np.searchsorted(DISTANCES, np.minimum(before, after))
