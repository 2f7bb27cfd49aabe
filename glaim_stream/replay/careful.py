"""Windows of a replay that survive a batch on which we fail.

A worker makes them anew from the topic (partition.py). A replay cannot go back in what it reads, which may be a file:
it keeps a copy of the windows and the batches since, and takes from these what the worker takes from the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glaim_stream.decode.dead_letters import InputRecord
from glaim_stream.pipeline.faults import Apart, copied
from glaim_stream.pipeline.pipeline import Applied, Pipeline
from glaim_stream.windows.partition import PartitionWindows

# A copy once the records since the last one have so many bytes. Of 3,000 groups of 7 sensors it takes 24 to 37 ms,
# about what 20,000 single readings of 80 bytes take to apply (2-core AMD EPYC, 2026-11-21): 12 us a group beside 1 us
# a reading. So 2 kB a group are 25 readings for one copy, and what is kept is about as large as the windows are.
KEPT_BYTES, KEPT_BYTES_A_GROUP = 16_000_000, 2_000


class CarefulWindows:
    """The windows of one partition, and how to get them back."""

    def __init__(
        self, pipeline: Pipeline, *, now_ms: Callable[[], int], on_fault: Callable[[int, Exception], None]
    ) -> None:
        """Begin with empty windows.

        Args:
            pipeline: applies the records.
            now_ms: wall time, epoch milliseconds.
            on_fault: told how many records a batch has on which we failed, and how.
        """
        self._pipeline, self._now_ms, self._on_fault = pipeline, now_ms, on_fault
        self.windows = pipeline.windows()
        self._copy: PartitionWindows | None = None  # None: empty ones
        self._since: list[Sequence[InputRecord]] = []
        self._since_bytes = 0

    def apply(self, records: Sequence[InputRecord]) -> Applied:
        """What a batch caused; records on which we fail are rejects of their own, and everything else is as it was."""
        try:
            applied = self._pipeline.apply(self.windows, records, now_ms=self._now_ms())
        except Exception as error:
            self._on_fault(len(records), error)
            return self._apply_apart(records)
        self._since.append(records)
        self._since_bytes += sum(len(record.value or b"") for record in records)
        if self._since_bytes >= max(KEPT_BYTES, KEPT_BYTES_A_GROUP * self.windows.groups):
            self._keep(copied(self._pipeline, self.windows))
        return applied

    def _apply_apart(self, records: Sequence[InputRecord]) -> Applied:
        before = self._pipeline.windows() if self._copy is None else self._copy
        for batch in self._since:  # they went well the first time
            self._pipeline.apply(before, batch, now_ms=self._now_ms())
        apart = Apart(self._pipeline, before)
        for _ in apart.tries(records, now_ms=self._now_ms()):
            pass
        self.windows = apart.windows
        self._keep(copied(self._pipeline, self.windows))
        return apart.applied

    def _keep(self, windows: PartitionWindows) -> None:
        self._copy = windows
        self._since.clear()
        self._since_bytes = 0
