"""Event time of one input partition. Nothing here reads a clock: wall time is an argument."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MOST = 64  # entries per partition: their text stays far below the 4,096 bytes that a broker takes with a commit
Int64s = NDArray[np.int64]
NEVER_MS = np.iinfo(np.int64).min // 4  # far below any time stamp, and lateness can still be subtracted from it


def limit_skew(event_time_ms: Int64s, produced_ms: Int64s, max_ahead_ms: Int64s) -> tuple[Int64s, int]:
    """Limit event times to the time of their records, so that a sensor whose clock is fast closes no other's steps.

    Args:
        event_time_ms: int64 [n].
        produced_ms: int64 [n], Kafka's time of each reading's record.
        max_ahead_ms: int64 [n], or [1] for all: room of the rings beyond the newest limited time. A reading
            stamped further ahead than that moves the clock up to `max_ahead_ms` before itself, so that it fits.

    Returns:
        int64 [n], the times that move the clock, and how many readings are stamped ahead of their record.
    """
    skewed = event_time_ms > produced_ms
    if not skewed.any():
        return event_time_ms, 0
    limited = np.minimum(event_time_ms, np.maximum(produced_ms, event_time_ms - max_ahead_ms))
    return limited, int(skewed.sum())


class EventClock:
    """The newest event time of a partition, from which each model's watermark is derived.

    The watermark of a model is this time less the model's allowed lateness; it never goes back.
    """

    def __init__(self) -> None:
        self.newest_event_ms = NEVER_MS
        self.last_arrival_ms: int | None = None

    def observe(self, event_time_ms: Int64s, arrival_ms: int) -> Int64s:
        """Advance by a batch.

        Args:
            event_time_ms: int64 [n], event times in order of arrival.
            arrival_ms: wall time of the batch, epoch milliseconds.

        Returns:
            int64 [n], the newest event time after each reading. Rows depend on this and not on the newest time of the
            batch, so they do not depend on how the broker cut the topic into batches.
        """
        if len(event_time_ms) == 0:
            return event_time_ms
        newest = np.maximum(np.maximum.accumulate(event_time_ms), self.newest_event_ms)
        self.newest_event_ms = int(newest[-1])
        self.last_arrival_ms = arrival_ms
        return newest

    def idle_ms(self, now_ms: int) -> int:
        """Milliseconds since the last arrival, never negative; 0 before the first reading."""
        return 0 if self.last_arrival_ms is None else max(0, now_ms - self.last_arrival_ms)


class ClosingOffsets:
    """The offset of the record that closed each of a model's newest closed steps.

    Whether a reading is late depends on the clock, which readings of the partition's other models move too. A rebuild
    has to see them in the same order, so it needs the record that closed a late reading's step, not the reading alone.
    """

    def __init__(self, window: int, step_ms: int, lateness_ms: int) -> None:
        self._offsets: Int64s | None = None  # [window] by step modulo window
        self._window, self._step_ms, self._lateness_ms = window, step_ms, lateness_ms

    def record(self, closable: int, until: int, newest_ms: Int64s, offsets: Int64s) -> None:
        """Record which readings of a batch close the steps `[closable, until)`.

        Args:
            closable: lowest open step before the batch.
            until: lowest open step after the batch.
            newest_ms: int64 [n], the partition's newest event time after each reading of the batch.
            offsets: int64 [n], offset of each reading's record.
        """
        if self._offsets is None:
            self._offsets = np.full(self._window, offsets[0])
        steps = np.arange(max(closable, until - self._window), until)
        ends_ms = (steps + 1) * self._step_ms + self._lateness_ms
        self._offsets[steps % self._window] = offsets[np.searchsorted(newest_ms, ends_ms)]

    def of(self, steps: Int64s) -> Int64s:
        """Offset of the record that closed each of these steps; the first offset seen for steps closed before it."""
        assert self._offsets is not None
        return self._offsets[steps % self._window]


@dataclass(frozen=True, slots=True)
class ClockClose:
    """The steps of `model` up to `through` were published when `offset` was the next record's offset."""

    offset: int
    model: str
    through: int


class ClockCloses:
    """The clock closes of a partition, oldest first, at most 64 of them.

    With more, the oldest are forgotten: a worker that rebuilds its windows then numbers the rows of those steps as if
    event time had closed them.
    """

    def __init__(self) -> None:
        self._closes: list[ClockClose] = []

    def add(self, offset: int, model: str, through: int | None) -> None:
        """Record a close; it replaces an earlier one of the same model at the same offset."""
        if through is None:
            return
        kept = [each for each in self._closes if (each.offset, each.model) != (offset, model)]
        self._closes = [*kept, ClockClose(offset, model, through)][-_MOST:]

    def needed(self, rebuild_from: int, ahead: Set[str]) -> tuple[ClockClose, ...]:
        """Return, and keep, the closes that a rebuild from this offset repeats.

        These are the closes since then, and the last one of each model in `ahead`, which has an open published step.
        """
        last = {each.model: each for each in self._closes if each.model in ahead}
        self._closes = [each for each in self._closes if each.offset > rebuild_from or last.get(each.model) is each]
        return tuple(self._closes)
