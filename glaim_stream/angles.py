"""Directions in degrees, of which 360 is 0 again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

TURN = 360.0


def around(differences: Doubles) -> Doubles:
    """Return differences of two directions by the shorter way: in -180 to 180."""
    return (differences + TURN / 2) % TURN - TURN / 2


def full_circles(
    lower: Doubles, upper: Doubles, direction: NDArray[np.bool_], least: Doubles, most: Doubles
) -> tuple[Doubles, Doubles]:
    """Let the intervals of directions that reach north hold every direction.

    350 to 10 lies around north, but no two numbers in order say so, and an interval that ends at 0 or 360 would not
    hold the other side.

    Args:
        lower: [...], NaN without an interval; all arguments are broadcast.
        upper: [...].
        direction: which of them are intervals of directions.
        least: that the values can have; below 0 it counts as 0.
        most: that the values can have; above 360 it counts as 360.
    """
    least, most = np.maximum(least, 0.0), np.minimum(most, TURN)
    through = direction & ((lower <= least) | (upper >= most))
    return np.where(through, least, lower), np.where(through, most, upper)
