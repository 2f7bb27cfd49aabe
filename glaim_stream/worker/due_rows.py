"""Counts due rows when the broker has acknowledged their batch, and shows those that are overdue until then."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from glaim_stream.core import metrics
from glaim_stream.output import Output

LEAST_OVERDUE_S = 60.0  # longer than Triton's deadline, the next rungs and a repeated send take together


class DueRows:
    """The observed rows of one partition whose step has closed: published, missing, or overdue."""

    def __init__(self, partition: int, target_s: float) -> None:
        """Start with no rows.

        Args:
            partition: label of the gauge.
            target_s: the timeliness target; rows are overdue after this time, and not before LEAST_OVERDUE_S.
        """
        self._label = str(partition)
        self._overdue_ms = max(target_s, LEAST_OVERDUE_S) * 1000
        self._waiting: deque[tuple[int, int]] = deque()  # (applied at, due rows) of each batch or slice, oldest first
        self._finished = 0  # number of the oldest entries whose output is made but not acknowledged

    def applied(self, rows: int, now_ms: int) -> None:
        """Record that a batch or slice was applied, and how many rows are due with it."""
        self._waiting.append((now_ms, rows))

    def finished(self) -> None:
        """Record that the output of the oldest batch or slice without one is made."""
        self._finished += 1

    def published(self, outputs: Sequence[Output]) -> None:
        """Count the rows of all finished batches, which the broker has acknowledged as these outputs."""
        for _ in range(self._finished):
            self._waiting.popleft()
        self._finished = 0
        for output in outputs:
            missing = max(0, output.due_rows - sum(message.observed for message in output.messages))
            metrics.due_rows.labels("missing").inc(missing)
            metrics.due_rows.labels("published").inc(output.due_rows - missing)

    def clear(self) -> None:
        """Forget waiting rows: their batches are dropped, and the rows are due again when these are applied again."""
        self._waiting.clear()
        self._finished = 0
        metrics.overdue_rows.labels(self._label).set(0)

    def overdue_since_ms(self, now_ms: int) -> float:
        """The time before which due rows that are not acknowledged are overdue."""
        return now_ms - self._overdue_ms

    def show_overdue(self, now_ms: int, owed: int) -> None:
        """Update the gauge.

        Args:
            now_ms: epoch milliseconds, on the clock of `applied`.
            owed: rows of open steps that should have closed before `overdue_since_ms`.
        """
        since_ms = self.overdue_since_ms(now_ms)
        waiting = sum(rows for applied_ms, rows in self._waiting if applied_ms < since_ms)
        metrics.overdue_rows.labels(self._label).set(waiting + owed)
