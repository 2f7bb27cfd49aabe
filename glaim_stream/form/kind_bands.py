"""Intervals of filled values whose sensor's kind allows some values only."""

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
    """Return the intervals [...] of filled values, widened to what the kinds of their sensors allow.

    A valve is open or closed, so the interval of a state that reaches more than half of the way to the highest or
    lowest state ends there. 350 to 10 lies around north, but no two numbers in order say so, and an interval that ends
    at 0 or 360 would not hold the other side: one that reaches an end of the circle holds every direction.

    Args:
        lower: [...], NaN without an interval.
        upper: [...].
        value: [...], that they lie around.
        kinds: of the C sensors.
        sensor: [...], which of the C sensors each is of; an array that is broadcast to the others.
        lowest: [...], that the values can have; infinite where that is not known.
        highest: [...].
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
    # A direction whose readings came to lie outside the circle is filled by such a value.
    return np.minimum(lower, value), np.maximum(upper, value)
