"""Calendar days of a time zone; a day in which the clocks change has 23 or 25 hours."""

from __future__ import annotations

from datetime import date, datetime, timedelta, tzinfo

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Days:
    """The days of a zone that a stretch of time touches, numbered from 0.

    starts_ms: int64 [days + 1], the first moment of each day and of the day after the last.
    names: the dates, ISO 8601.
    """

    def __init__(self, zone: tzinfo, first_ms: int, end_ms: int) -> None:
        """Find the days.

        Args:
            zone: time zone whose midnight begins a day.
            first_ms: first moment of the stretch, epoch ms.
            end_ms: moment after the last one, later than `first_ms`.
        """
        first = datetime.fromtimestamp(first_ms / 1000, zone).date()
        starts = [_start_ms(first, zone)]
        names: list[str] = []
        while starts[-1] < end_ms:
            names.append(first.isoformat())
            first += timedelta(days=1)
            starts.append(_start_ms(first, zone))
        self.names = names
        self.starts_ms = np.array(starts, np.int64)

    def __len__(self) -> int:
        return len(self.names)

    def of(self, times_ms: Ints) -> Ints:
        """The number of the day of each moment, int64 [n]; moments lie within the stretch."""
        numbers: Ints = np.searchsorted(self.starts_ms, times_ms, side="right") - 1
        return numbers


def _start_ms(day: date, zone: tzinfo) -> int:
    """The first moment of a day: midnight, or the time that the clocks show after they have skipped it."""
    # For a midnight that the clocks skip, `fold` 0 means the offset before the change, so this is the change itself.
    return round(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() * 1000)
