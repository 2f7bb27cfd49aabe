"""Directions in degrees, of which 360 is 0 again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

TURN = 360.0


def around(differences: Doubles) -> Doubles:
    """Return differences of two directions by the shorter way: in -180 to 180."""
    return (differences + TURN / 2) % TURN - TURN / 2


def differences(filled: Doubles, truth: NDArray[np.floating], direction: NDArray[np.bool_]) -> Doubles:
    """Return filled less true values, those of directions by the shorter way; all arguments are broadcast."""
    found: Doubles = filled - truth
    return np.where(direction, around(found), found) if direction.any() else found
