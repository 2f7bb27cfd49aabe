"""Intervals of filled values of sensors whose kind restricts the values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.angles import TURN, start_of
from glaim_stream.form.kinds import Kind, are

Doubles = NDArray[np.float64]


def by_kind(
    lower: Doubles,
    upper: Doubles,
    value: Doubles,
    kinds: Sequence[Kind | None],
    sensor: NDArray[np.int64] | NDArray[np.int32],
    lowest: Doubles,
    highest: Doubles,
) -> tuple[Doubles, Doubles]:
    """Return the intervals [...] of filled values, widened as the kinds of their sensors require.

    A valve is open or closed, so the interval of a state that reaches more than half of the way to the highest or
    lowest state ends there. 350 to 10 lies around north, but no two numbers in order say so, and an interval that ends
    at 0 or 360 would not hold the other side: one that reaches an end of the circle holds every direction.

    Args:
        lower: [...], lower bounds; NaN without an interval.
        upper: [...], upper bounds.
        value: [...], filled values between the bounds.
        kinds: kinds of the C sensors.
        sensor: [...], index of each value's sensor; broadcast to the other arrays.
        lowest: [...], lowest possible values; infinite if unknown.
        highest: [...], highest possible values; infinite if unknown.
    """
    state, direction = (are(kinds, kind)[sensor] for kind in (Kind.STATE, Kind.ANGLE))
    with np.errstate(invalid="ignore"):
        down = state & np.isfinite(lowest) & (lower < (value + lowest) / 2)
        up = state & np.isfinite(highest) & (upper > (value + highest) / 2)
    start = start_of((value < 0.0) | (np.isfinite(lowest) & (lowest < 0.0) & (value <= TURN / 2)))
    least, most = np.maximum(lowest, start), np.minimum(highest, start + TURN)
    end = direction & ((lower <= least) | (upper >= most))
    lower = np.where(down, lowest, np.where(end, least, lower))
    upper = np.where(up, highest, np.where(end, most, upper))
    # A direction with readings outside the circle may be filled by a value outside it.
    return np.minimum(lower, value), np.maximum(upper, value)
