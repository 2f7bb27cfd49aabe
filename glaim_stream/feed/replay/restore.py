"""Restores the windows of a replay from a copy, since a replay of a file cannot go back in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glaim_stream.core.readings import InputRecord
from glaim_stream.pipeline import Pipeline, Restore, Restored, copy_windows
from glaim_stream.windows import PartitionWindows

# Bytes of records after which a new copy is made. Copying 3,000 groups of 7 sensors takes 24 to 37 ms, about as long as
# applying 20,000 single readings of 80 bytes (2-core AMD EPYC, 2026-11-21): 12 us a group against 1 us a reading. So
# 2 kB a group are 25 readings for one copy, and the batches kept are about as large as the windows.
COPY_BYTES, COPY_BYTES_PER_GROUP = 16_000_000, 2_000


class CopyRestore(Restore):
    """A copy of one partition's windows, and the batches applied since."""

    def __init__(self, pipeline: Pipeline, *, now_ms: Callable[[], int]) -> None:
        self._pipeline, self._now_ms = pipeline, now_ms
        self._copy: PartitionWindows | None = None  # None: empty windows
        self._since: list[Sequence[InputRecord]] = []
        self._since_bytes = 0

    async def before(self, records: Sequence[InputRecord]) -> Restored:
        """See Restore. The batches since the copy are applied again; none of them failed the first time."""
        windows = self._pipeline.windows() if self._copy is None else copy_windows(self._pipeline, self._copy)
        for batch in self._since:
            for _ in self._pipeline.slices(windows, batch, now_ms=self._now_ms()):
                pass  # the output of these batches already exists
        return Restored(windows)

    def note_applied(self, records: Sequence[InputRecord], windows: PartitionWindows) -> None:
        """Keep a batch, or a new copy once the batches are large."""
        self._since.append(records)
        self._since_bytes += sum(len(record.value or b"") for record in records)
        if self._since_bytes >= max(COPY_BYTES, COPY_BYTES_PER_GROUP * windows.groups):
            self.note_isolated(windows)

    def note_isolated(self, windows: PartitionWindows) -> None:
        """Keep a new copy: some records of the last batch cannot be applied again."""
        self._copy = copy_windows(self._pipeline, windows)
        self._since.clear()
        self._since_bytes = 0
