"""Directions in degrees, of which 360 is 0 again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

TURN = 360.0
ALMOST = 5.0  # degrees from 0 and 360 within which the readings of a direction come in time


def are_circles(least: Doubles, most: Doubles) -> Bools:
    """Return which sensors' readings, from `least` to `most` [C], go around the circle of directions."""
    return (least >= 0.0) & (least <= ALMOST) & (most >= TURN - ALMOST) & (most <= TURN)


def around(differences: Doubles) -> Doubles:
    """Return differences of two directions by the shorter way: in -180 to 180."""
    return (differences + TURN / 2) % TURN - TURN / 2


def differences(filled: Doubles, truth: NDArray[np.floating], direction: Bools) -> Doubles:
    """Return filled less true values, those of directions by the shorter way; all arguments are broadcast."""
    found: Doubles = filled - truth
    return np.where(direction, around(found), found) if direction.any() else found
