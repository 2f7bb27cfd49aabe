"""Event time of one input partition. Pure: nothing here reads a clock, wall time is handed in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
NEVER_MS = np.iinfo(np.int64).min // 4  # far below any stamp, and lateness can still be subtracted from it


class EventClock:
    """The newest event time of a partition, from which each model's watermark is drawn.

    The watermark of a model is this time less the model's allowed lateness; it never goes back.
    """

    def __init__(self) -> None:
        self.newest_event_ms = NEVER_MS
        self.last_arrival_ms: int | None = None

    def observe(self, event_time_ms: Int64s, arrival_ms: int) -> Int64s:
        """Take in a batch in order of arrival.

        Args:
            event_time_ms: int64 [n], event times in order of arrival.
            arrival_ms: wall time of the batch, epoch milliseconds.

        Returns:
            int64 [n], the newest event time after each reading: what the watermark was when that reading came, so
            that the outcome does not depend on how the broker cut the topic into batches.
        """
        if len(event_time_ms) == 0:
            return event_time_ms
        newest = np.maximum(np.maximum.accumulate(event_time_ms), self.newest_event_ms)
        self.newest_event_ms = int(newest[-1])
        self.last_arrival_ms = arrival_ms
        return newest

    def idle_ms(self, now_ms: int) -> int:
        """How long nothing arrived, milliseconds; 0 before the first reading."""
        return 0 if self.last_arrival_ms is None else max(0, now_ms - self.last_arrival_ms)
