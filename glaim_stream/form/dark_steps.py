"""Dark steps: no sensor of the group was observed, and the last value or the line may be the better answer.

A sensor that was observed at a step tells something about the others. At a dark step only the past is known, and
perhaps later readings. The conditional mean expects a return towards the window's level there. A series that is close
to a random walk does not return, and the last value, or the line between two readings, is the better answer for it.
Validation windows decide (`choices`), by the number of steps to the nearest step with a reading, before the newest
reading and after it.
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

DISTANCES = (1, 2, 4, 8)  # upper bounds of the classes of distance; one more class lies above the last
NEWEST_PART = 4  # the choice applies to the newest quarter of a window's steps; validation has no gaps beyond it


@dataclass(frozen=True)
class DarkSteps:
    """The classes of `DISTANCES` in which dark steps get the simple value instead of the form's answer.

    between: choices for steps before a later reading, which get the line.
    after: choices for steps after the last reading, which get the last value.
    """

    between: tuple[bool, ...]
    after: tuple[bool, ...]

    def __post_init__(self) -> None:
        """Refuse other choices.

        Raises:
            ValueError: there are more or fewer choices than classes, or one is not True or False.
        """
        for chosen in (self.between, self.after):
            if len(chosen) != len(DISTANCES) + 1 or not all(isinstance(each, bool) for each in chosen):
                raise ValueError(f"expected {len(DISTANCES) + 1} choices, found {chosen}")

    def simple(self, observed: Bools, newest: int) -> Bools:
        """Return the newest steps that get the simple value, bool [n, newest].

        No step does if more than a quarter of the window is filled.

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
            kinds: kinds of the sensors.
            values: float64 [n, C, T], including cells that follow from relations.
            complete: bool [n, C, T], known cells: readings, and cells that follow from relations.
            observed: bool [n, C, T], readings only.
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
    """Return for every step [n, T] whether a reading follows (0) or none does (1), and the class of its distance.

    Args:
        observed: bool [n, C, T].
    """
    lit = np.asarray(observed.any(axis=1), np.bool_)
    before, after = distances(lit)
    return np.isinf(after).astype(np.int64), np.searchsorted(DISTANCES, np.minimum(before, after))
