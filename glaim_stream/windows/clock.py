"""Event time of one input partition. Pure: nothing here reads a clock, wall time is handed in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
NEVER_MS = np.iinfo(np.int64).min // 4  # far below any stamp, and lateness can still be subtracted from it


def counted_ms(event_time_ms: Int64s, produced_ms: Int64s, most_ahead_ms: Int64s) -> tuple[Int64s, int]:
    """What each reading counts for the clock, and how many readings are stamped ahead of their record.

    Not more than its record's own time: one sensor whose clock is ahead must not close the steps of all the others.

    Args:
        event_time_ms: int64 [n].
        produced_ms: int64 [n], Kafka's time of each reading's record.
        most_ahead_ms: int64 [n] or one for all: how far ahead there is room for, which the count keeps to.
    """
    skewed = event_time_ms > produced_ms
    if not skewed.any():
        return event_time_ms, 0
    counted = np.minimum(event_time_ms, np.maximum(produced_ms, event_time_ms - most_ahead_ms))
    return counted, int(skewed.sum())


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


class Closers:
    """Which record closed each of the newest closed steps of one model.

    Whether a reading came late depends on the clock, which readings of other models in the partition move too. A
    rebuild has to meet them again in that order: so the record that closed a late reading's step is needed with it.
    """

    def __init__(self, window: int, step_ms: int, lateness_ms: int) -> None:
        self._offsets: Int64s | None = None
        self._window, self._step_ms, self._lateness_ms = window, step_ms, lateness_ms

    def note(self, closable: int, until: int, newest_ms: Int64s, offsets: Int64s) -> None:
        """A batch closes the steps `[closable, until)`.

        Args:
            closable: the lowest step that was open before it.
            until: the same after it.
            newest_ms: int64 [n], the partition's newest event time after each of its readings.
            offsets: int64 [n] of their records.
        """
        if self._offsets is None:
            self._offsets = np.full(self._window, offsets[0])
        steps = np.arange(max(closable, until - self._window), until)
        ends_ms = (steps + 1) * self._step_ms + self._lateness_ms
        self._offsets[steps % self._window] = offsets[np.searchsorted(newest_ms, ends_ms)]

    def of(self, steps: Int64s) -> Int64s:
        """Offset of the record that closed each of these steps, or of the first record known."""
        assert self._offsets is not None
        return self._offsets[steps % self._window]
