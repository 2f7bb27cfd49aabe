"""The place of a time within the day, or within the year for slow data, in local time.

The phase follows from the time and the zone, never from row numbers: rows may be missing, and habits keep to the local
clock when the clocks change. Steps that do not divide the day, such as 7 minutes, fall into bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.times import zone_of

Ints = NDArray[np.int64]

DAY_MS = 86_400_000
YEAR_MS = 31_556_952_000  # 365.2425 days
_MOST_BINS = 96  # a quarter of an hour, or four days
_FEWEST_BINS = 6
_QUARTER_MS = 900_000  # today's offsets from UTC all change at full quarters of an hour


@dataclass(frozen=True, slots=True)
class Phase:
    """A period that is divided into bins of equal length.

    period_ms: a day, or a year.
    zone: time zone, such as Europe/Berlin.
    """

    period_ms: int
    bins: int
    zone: str

    def of(self, times_ms: Ints) -> Ints:
        """Return the bin of each time, int64 of the same shape, in 0..bins - 1."""
        local = times_ms + _offsets_ms(times_ms, self.zone)
        return local % self.period_ms * self.bins // self.period_ms

    def number_of(self, times_ms: Ints) -> Ints:
        """Return the number of each time's day (or year), int64 of the same shape."""
        return (times_ms + _offsets_ms(times_ms, self.zone)) // self.period_ms

    def of_windows(self, end_ms: Ints, steps: int, step_ms: int) -> Ints:
        """Return the bins [n, T] of windows by the times of their newest steps [n]."""
        ends, place = np.unique(end_ms, return_inverse=True)
        before = np.arange(steps - 1, -1, -1) * step_ms
        return self.of(ends[:, None] - before)[place]


def phase_for(step_ms: int, zone: str) -> Phase | None:
    """Return the phase that suits a step: the day, the year for steps of days or weeks, or None."""
    for period_ms in (DAY_MS, YEAR_MS):
        bins = min(_MOST_BINS, period_ms // step_ms)
        if bins >= _FEWEST_BINS:
            return Phase(period_ms, bins, zone)
    return None


def _offsets_ms(times_ms: Ints, zone: str) -> Ints:
    """Offsets of local time from UTC."""
    if zone == "UTC":
        return np.zeros_like(times_ms)
    place = zone_of(zone)
    quarters, inverse = np.unique(times_ms // _QUARTER_MS, return_inverse=True)
    offsets = [datetime.fromtimestamp(quarter * 900, tz=place).utcoffset() for quarter in quarters.tolist()]
    found = np.array([round(offset.total_seconds() * 1000) if offset else 0 for offset in offsets], np.int64)
    return found[inverse].reshape(times_ms.shape)
