"""Times that a wrong clock has set: years away from all others of a file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FEWEST = 20  # times; among fewer, no part can be called the rest
_SHARE = 0.05  # share of the times at either end that may be stray


def stray_times(times_ms: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Find the few times far from the others, in any order.

    A time is stray if it lies further from the middle 90 % of all times than these span. The rest is then at most
    three times as long as its middle, and no more than 5 % at either end can be stray: a file of which more lies
    elsewhere holds two periods, and no clock can be blamed.

    Args:
        times_ms: int64 [n], epoch milliseconds.

    Returns:
        bool [n].
    """
    none = np.zeros(len(times_ms), np.bool_)
    if len(times_ms) < FEWEST:
        return none
    least = int(len(times_ms) * _SHARE)
    ordered = np.partition(times_ms, (least, len(times_ms) - 1 - least))
    first, last = int(ordered[least]), int(ordered[len(times_ms) - 1 - least])
    span = last - first
    return (times_ms < first - span) | (times_ms > last + span) if span else none
