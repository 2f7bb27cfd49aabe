"""One partition of a replay, without commits and back-pressure."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from glaim_stream.core.readings import InputRecord
from glaim_stream.decode import ReadingRecords
from glaim_stream.output import Publisher
from glaim_stream.pipeline import PartitionEngine, Pending, Pipeline, Restore, Restored, copy_windows
from glaim_stream.windows import PartitionWindows

# Bytes of records after which a new copy is made. Copying 3,000 groups of 7 sensors takes 24 to 37 ms, about as long as
# applying 20,000 single readings of 80 bytes (2-core AMD EPYC, 2026-11-21): 12 us a group against 1 us a reading. So
# 2 kB a group are 25 readings for one copy, and the batches kept are about as large as the windows.
COPY_BYTES, COPY_BYTES_PER_GROUP = 16_000_000, 2_000


@dataclass(slots=True)
class Counts:
    """The counts of a replay so far."""

    records: int = 0
    warm_up_records: int = 0
    readings: int = 0
    rows: int = 0
    messages: int = 0
    rejects: Counter[str] = field(default_factory=Counter)  # rejected records by cause
    faults: int = 0  # internal errors
    outages: int = 0  # number of times that a group went dark or reported again


class PartitionReplay:
    """An engine that is fed one partition's records in order, with several batches waiting for the imputer."""

    def __init__(
        self,
        pipeline: Pipeline,
        publisher: Publisher,
        counts: Counts,
        *,
        topic: str,
        partition: int,
        in_flight: int,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Start with empty windows.

        Args:
            pipeline: pipeline that all partitions share.
            publisher: publisher of rows and dead letters.
            counts: counts that all partitions share.
            topic: topic of the records, for the dead letters.
            partition: number of the partition.
            in_flight: largest number of batches that wait for the imputer.
            now_ms: clock of wall time, epoch milliseconds.
        """
        self._publisher, self._counts = publisher, counts
        self._in_flight = in_flight
        restore = CopyRestore(pipeline, now_ms=now_ms)
        self._engine = PartitionEngine(
            pipeline, restore, topic=topic, partition=partition, now_ms=now_ms, on_fault=self._count_fault
        )
        self._waiting: deque[tuple[Pending, bool]] = deque()  # batch, and whether to publish its output

    async def take(self, records: Sequence[InputRecord], *, publish: bool = True) -> None:
        """Process a batch; without `publish` it only warms up windows and scores, and its output is discarded."""

        async def take_slice(pending: Pending) -> None:
            self._counts.readings += pending.applied.readings if publish else 0
            await self._enqueue(pending, publish=publish)

        if publish:
            self._counts.records += len(records)
        else:
            self._counts.warm_up_records += len(records)
        await take_slice(await self._engine.apply(records, take_slice))

    async def finish(self, *, close: bool) -> None:
        """Wait for all batches; with `close`, publish the open steps, as the worker does when no more input arrives."""
        while close and (pending := self._engine.close_end()) is not None:
            await self._enqueue(pending, publish=True)
        while self._waiting:
            await self._settle_oldest()

    async def close(self) -> None:
        """Cancel the batches that still wait for the imputer."""
        await self._engine.close()

    async def _enqueue(self, pending: Pending, *, publish: bool) -> None:
        self._waiting.append((pending, publish))
        while len(self._waiting) > self._in_flight:
            await self._settle_oldest()

    async def _settle_oldest(self) -> None:
        pending, publish = self._waiting.popleft()
        if not publish:
            await self._engine.learn(pending)
            return
        output = await self._engine.finish(pending)
        self._counts.messages += len(output.messages)
        self._counts.rows += sum(message.rows for message in output.messages)
        for reject in output.rejects:
            self._counts.rejects[reject.cause.value] += reject.count
        self._counts.outages += len(output.announcements)
        await self._publisher.publish(output)

    def _count_fault(self) -> None:
        self._counts.faults += 1


class CopyRestore(Restore):
    """A copy of one partition's windows, and the batches applied since."""

    def __init__(self, pipeline: Pipeline, *, now_ms: Callable[[], int]) -> None:
        self._pipeline, self._now_ms = pipeline, now_ms
        self._copy: PartitionWindows | None = None  # None: empty windows
        self._since: list[Sequence[InputRecord]] = []
        self._since_bytes = 0

    async def before(self, offset: int) -> Restored:
        """See Restore. The batches since the copy are applied again; none of them failed the first time."""
        windows = self._pipeline.windows() if self._copy is None else copy_windows(self._pipeline, self._copy)
        for batch in self._since:
            for _ in self._pipeline.slices(windows, batch, now_ms=self._now_ms()):
                pass  # the output of these batches already exists
        return Restored(windows)

    def note_applied(self, records: Sequence[InputRecord], windows: PartitionWindows) -> None:
        """Keep a batch, or a new copy once the batches are large."""
        self._since.append(records)
        if isinstance(records, ReadingRecords):
            self._since_bytes += records.size_bytes
        else:
            self._since_bytes += sum(len(record.value or b"") for record in records)
        if self._since_bytes >= max(COPY_BYTES, COPY_BYTES_PER_GROUP * windows.groups):
            self.note_isolated(windows)

    def note_isolated(self, windows: PartitionWindows) -> None:
        """Keep a new copy: some records of the last batch cannot be applied again."""
        self._copy = copy_windows(self._pipeline, windows)
        self._since.clear()
        self._since_bytes = 0
