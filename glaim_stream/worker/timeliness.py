"""Counts published rows as in time or late, by row and not by batch: a batch has between one row and a million."""

from __future__ import annotations

from collections.abc import Sequence

from glaim_stream.core import metrics

_SAMPLE = 100  # records of a batch that are looked at, evenly spaced: the share of late ones is right within 1 %


class Timeliness:
    """The counts of one partition's rows that are in time and late."""

    def __init__(self, target_s: float) -> None:
        """Start with no rows.

        Args:
            target_s: longest time in seconds from a record to its acknowledged rows that is in time.
        """
        self._target_ms = target_s * 1000
        self._rows = 0  # rows published for slices of a record whose batch has not ended

    def add(self, rows: int, stamps_ms: Sequence[int], now_ms: int) -> None:
        """Count the acknowledged rows of some batches.

        Rows do not carry the record that closed their step, so each record stands for an equal share of them.

        Args:
            rows: number of rows.
            stamps_ms: times of the batches' records, epoch milliseconds; empty for a slice, whose rows are counted
                with the end of its batch.
            now_ms: time of the acknowledgement, epoch milliseconds.
        """
        self._rows += rows
        if not stamps_ms:
            return
        sample = stamps_ms[:: max(1, len(stamps_ms) // _SAMPLE)]
        late = sum(now_ms - stamp > self._target_ms for stamp in sample) / len(sample)
        metrics.timed_rows.labels("late").inc(self._rows * late)
        metrics.timed_rows.labels("in_time").inc(self._rows * (1 - late))
        self._rows = 0
