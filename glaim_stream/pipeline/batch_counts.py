"""Counts the effects of a batch in the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from glaim_stream.core import metrics
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.windows import Applied


def count_applied(records: int, applied: Applied) -> None:
    """Count the records of a batch or slice, and their readings."""
    metrics.records.inc(records)
    metrics.readings.inc(applied.readings)
    metrics.dropouts.inc(applied.dropouts)
    metrics.superseded.inc(applied.superseded)
    metrics.skewed.inc(applied.skewed)


def count_rejects(rejects: Sequence[Reject]) -> None:
    """Count rejected readings and records by cause."""
    counts: Counter[DeadLetterCause] = Counter()
    for reject in rejects:
        counts[reject.cause] += reject.count
    for cause, count in counts.items():
        if cause is DeadLetterCause.TOO_LATE:
            metrics.late_readings.inc(count)
        else:
            metrics.dead_letters.labels(cause.value).inc(count)
