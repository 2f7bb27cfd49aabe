"""The mean of the readings of one step: the arithmetic mean of numbers, the mean of unit vectors for directions.

The readings are added one by one, in order of arrival, as complex numbers where there are directions. Sums of the same
readings in the same order have the same bits wherever they are made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.angles import on_circle

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Sums = NDArray[Any]  # float64, or complex128 where there are directions

_SCALE = 2.0**-31  # factor of numbers: a power of two changes no digit, and the sum of the largest floats stays finite
_DIGITS = 9  # digits of a mean direction; sines and cosines change the twelfth


def addends(values: Doubles, directions: Bools | None) -> Sums:
    """Return what each reading adds to the sum of its step.

    Args:
        values: float64 [n].
        directions: bool [n], readings that are directions in degrees; None: there are none.
    """
    numbers: Sums = values * _SCALE
    return numbers if directions is None else np.where(directions, np.exp(1j * np.deg2rad(values)), numbers)


def means(sums: Sums, count: NDArray[np.integer], single: Doubles, signed: Bools, directions: Bools | None) -> Doubles:
    """Return the means of steps.

    A single reading stays as it is: a sum would lose the sign of -0.0, and the scale the smallest digits. Directions
    that cancel each other have no mean; theirs is some direction across.

    Args:
        sums: [k], sums of `addends`.
        count: [k], number of readings of each step, 1 or more.
        single: float64 [k], a reading of each step.
        signed: bool [k], steps with a reading below 0: their directions are from -180 to 180.
        directions: bool [k], as for `addends`.
    """
    found: Doubles = sums.real / count / _SCALE
    if directions is not None:
        degrees = on_circle(np.round(on_circle(np.rad2deg(np.angle(sums)), signed), _DIGITS), signed)
        found = np.where(directions, degrees + 0.0, found)  # no -0.0
    return np.where(count == 1, single, found)


def mean_of_each(values: Doubles, step: NDArray[np.int64], steps: int, directions: Bools | None) -> Doubles:
    """Return for each reading the mean of all readings of its step, float64 [n].

    Args:
        values: float64 [n], in order of arrival.
        step: int64 [n], from 0 on.
        steps: number of steps.
        directions: bool [n], as for `addends`.
    """
    parts = addends(values, directions)
    sums = np.zeros(steps, parts.dtype)
    np.add.at(sums, step, parts)
    signed = np.bincount(step, values < 0.0, minlength=steps)[step] > 0
    return means(sums[step], np.bincount(step, minlength=steps)[step], values, signed, directions)
