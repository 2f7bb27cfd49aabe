"""The live work on one partition: batches in, output acknowledged, then the batch answered. Knows no Kafka client.

Two tasks run side by side. The first applies each batch to the windows, in order; the second waits for the imputer,
publishes in the same order and answers. So several batches wait for the model at a time, and no batch is answered
before the broker has acknowledged everything that it caused.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glaim_stream import metrics
from glaim_stream.decode.dead_letters import InputRecord
from glaim_stream.decode.stamps import ticks_text
from glaim_stream.kafka.offsets import Delivery
from glaim_stream.output.messages import Publisher
from glaim_stream.pipeline.engine import PartitionEngine, Pending
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.windows.clock import NEVER_MS
from glaim_stream.windows.partition import PartitionWindows
from glaim_stream.worker.restore import Rebuilder, TopicRestore

log = logging.getLogger(__name__)

IDLE_CHECK_S = 1.0


@dataclass(frozen=True, slots=True)
class Work:
    """A batch to process; `done` is called once it is answered."""

    records: Sequence[InputRecord]
    delivery: Delivery
    done: Callable[[], object]


@dataclass(frozen=True, slots=True)
class _Applied:
    """A batch between the two tasks."""

    pending: Pending
    work: Work | None  # None for steps that the wall clock closed
    rebuild_from: int = 0  # lowest offset that the windows need after this batch
    stamps: str = ""  # by which a rebuild from there judges the records' times


class PartitionWorker:
    """Two tasks that process one partition until `stop`."""

    def __init__(
        self,
        topic: str,
        partition: int,
        pipeline: Pipeline,
        publisher: Publisher,
        rebuilder: Rebuilder,
        *,
        batches_in_flight: int,
        on_crash: Callable[[BaseException], None] = lambda error: None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Start the tasks.

        Args:
            topic: the input topic.
            partition: its number.
            pipeline: shared with the other partitions.
            publisher: publishes output and dead letters.
            rebuilder: reads the input topic again.
            batches_in_flight: most batches that wait between the two tasks.
            on_crash: called with an error that ended a task; the worker must not carry on after it.
            now_ms: wall time, epoch milliseconds.
        """
        self._topic, self._partition = topic, partition
        self._pipeline, self._publisher = pipeline, publisher
        self._now_ms = now_ms
        restore = TopicRestore(pipeline, rebuilder, topic=topic, partition=partition, now_ms=now_ms)
        self._engine = PartitionEngine(pipeline, restore, topic=topic, partition=partition, now_ms=now_ms)
        self._next_offset = -1
        self._position_unsure = True
        self._incoming: asyncio.Queue[Work] = asyncio.Queue(1)
        self._applied: asyncio.Queue[_Applied] = asyncio.Queue(batches_in_flight)
        self._on_crash = on_crash
        self._tasks = [asyncio.create_task(self._apply_batches()), asyncio.create_task(self._publish_batches())]
        for task in self._tasks:
            task.add_done_callback(self._report_crash)

    @property
    def rebuilding(self) -> bool:
        """Whether the windows are not complete: before the first batch, and while they are rebuilt."""
        return self._engine.restoring

    async def submit(self, work: Work) -> None:
        """Hand over a batch; waits while too many are in flight, which is the back-pressure."""
        await self._incoming.put(work)

    def check_position(self) -> None:
        """Compare the offset of the next batch: the partition was reassigned, and another worker may have had it."""
        self._position_unsure = True

    async def stop(self) -> None:
        """Drop everything in flight; batches that were not answered will be delivered again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._engine.close()

    def _report_crash(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.critical("%s-%d: processing ended by an error", self._topic, self._partition, exc_info=error)
            self._on_crash(error)

    async def _apply_batches(self) -> None:
        while True:
            try:
                work = await asyncio.wait_for(self._incoming.get(), IDLE_CHECK_S)
            except TimeoutError:
                await self._close_idle()
                continue
            if self._has_moved(work.delivery):
                self._engine.drop_windows()
            pending = await self._engine.apply(work.records)
            windows = self._engine.windows
            assert windows is not None
            self._set_gauges(windows)
            rebuild_from = windows.rebuild_from(work.delivery.next_offset)
            stamps = ticks_text(windows.stamps.needed(rebuild_from))
            await self._applied.put(_Applied(pending, work, rebuild_from, stamps))

    def _has_moved(self, delivery: Delivery) -> bool:
        """Whether a batch does not follow the last one, so that the windows do not belong to it.

        A batch that was delivered before is already in the windows. A gap means compaction, or after an assignment
        the work of another worker.
        """
        redelivered = delivery.first_offset < self._next_offset
        moved = redelivered or (self._position_unsure and delivery.first_offset != self._next_offset)
        self._position_unsure = False
        self._next_offset = delivery.next_offset
        return moved

    async def _close_idle(self) -> None:
        pending = self._engine.close_idle()
        if pending is not None:
            await self._applied.put(_Applied(pending, None))

    async def _publish_batches(self) -> None:
        while True:
            applied = await self._applied.get()
            output = (await self._engine.finish(applied.pending)).output
            await self._publisher.publish(output)
            if applied.work is not None:
                applied.work.delivery.answer(applied.rebuild_from, applied.stamps)
                applied.work.done()
                if output.messages:
                    latency_ms = self._now_ms() - applied.work.records[-1].timestamp
                    metrics.output_latency_seconds.observe(latency_ms / 1000)

    def _set_gauges(self, windows: PartitionWindows) -> None:
        label = str(self._partition)
        metrics.groups.labels(label).set(windows.groups)
        metrics.known_groups.set(len(self._pipeline.index.names))
        newest_ms = windows.clock.newest_event_ms
        if newest_ms != NEVER_MS:  # before the first usable reading there is no event time to compare with
            metrics.watermark_lag_seconds.labels(label).set((self._now_ms() - newest_ms) / 1000)
            metrics.newest_event_seconds.labels(label).set(newest_ms / 1000)
