"""Stuck sensors: stretches in which a sensor repeats one value although it otherwise varies.

A stretch is judged by the sensor's other stretches and not by a fixed length. Rain, a valve or a solar panel at night
repeat a value for long as a habit: more than a quarter of their other readings lie in long stretches too, so all of
their readings are learned.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]

_LEAST_READINGS = 12  # fewest readings of a stretch
_LONGER = 6  # factor over the usual length of the other readings' stretches
_USUAL = 0.75  # share of the other readings that lie in stretches of at most the usual length
_OTHERS = 24  # fewest readings outside of a stretch that tell the sensor's habit


def stuck_cells(values: NDArray[np.float64], observed: Bools) -> Bools:
    """Return the observed cells that repeat a stuck value; the first reading of a stretch may be true and is kept.

    Args:
        values: float64 [g, C, N]; ignored where not observed.
        observed: bool [g, C, N].
    """
    out = np.zeros(observed.shape, np.bool_)
    for place in np.ndindex(observed.shape[:2]):
        seen = np.flatnonzero(observed[place])
        for first, last in _stuck_stretches(values[place][seen]):
            out[place][seen[first + 1 : last]] = True
    return out


def _stuck_stretches(readings: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Stretches `[first, last)` of one sensor's readings [k] in their order."""
    starts = np.flatnonzero(np.append(True, np.diff(readings) != 0)) if len(readings) else np.zeros(0, np.int64)
    ends = np.append(starts[1:], len(readings))
    lengths = ends - starts
    ascending = np.sort(lengths)
    within = np.cumsum(ascending)  # number of readings in stretches of at most this length
    found = []
    for stretch in np.flatnonzero(lengths >= _LEAST_READINGS):
        others = len(readings) - lengths[stretch]
        if others < _OTHERS:
            continue
        # The stretch itself is among the longer ones; where it is reached, the usual length is no shorter than it.
        usual = ascending[np.searchsorted(within, _USUAL * others)]
        if lengths[stretch] >= _LONGER * usual:
            found.append((int(starts[stretch]), int(ends[stretch])))
    return found
