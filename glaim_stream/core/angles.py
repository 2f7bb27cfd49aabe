"""Directions in degrees, of which 360 is 0 again.

A sensor counts them from 0 to 360 or from -180 to 180, and its readings tell which. A value between two of them is on
the straight line unless they are more than half a turn apart. Then one of them is below 0 if the sensor counts from
-180 to 180, and none is if it counts from 0 to 360.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

TURN = 360.0
ALMOST = 5.0  # degrees from both ends of the circle, which the readings of a direction reach in time


def start_of(signed: Bools) -> Doubles:
    """Return the least value of the circles from -180 to 180, and of the others, which are from 0 to 360."""
    return np.where(signed, -TURN / 2, 0.0)


def are_signed(least: Doubles, most: Doubles) -> Bools:
    """Return which directions, from `least` to `most`, are counted from -180 to 180."""
    return (least < 0.0) & (most <= TURN / 2)


def are_circles(least: Doubles, most: Doubles) -> Bools:
    """Return which sensors' readings, from `least` to `most` [C], go around the circle of directions."""
    start = start_of(least < 0.0)
    end = start + TURN
    return (least >= start) & (least <= start + ALMOST) & (most >= end - ALMOST) & (most <= end)


def on_circle(degrees: Doubles, signed: Bools) -> Doubles:
    """Return the same directions as numbers from -180 to 180 where `signed`, else from 0 to 360, without the end."""
    start = start_of(signed)
    inside = (degrees >= start) & (degrees < start + TURN)
    return np.where(inside, degrees, (degrees - start) % TURN + start)


def around(differences: Doubles) -> Doubles:
    """Return differences of two directions by the shorter way: in -180 to 180. Half a turn keeps its sign."""
    return np.where(differences == TURN / 2, differences, (differences + TURN / 2) % TURN - TURN / 2)


def differences(filled: Doubles, truth: NDArray[np.floating], direction: Bools) -> Doubles:
    """Return filled less true values, those of directions by the shorter way; all arguments are broadcast."""
    found: Doubles = filled - truth
    return np.where(direction, around(found), found) if direction.any() else found
