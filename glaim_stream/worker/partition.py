"""One input partition at work: batches in, output acknowledged, then the ledger answered. Knows no Kafka client.

Two stages run side by side. The first decodes and applies a batch to the windows, in order and without waiting for
anything; the second waits for the imputer, settles and publishes in order and answers. So several batches wait for
the model at a time, and nothing is answered before what it caused is acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from glaim_stream import metrics
from glaim_stream.blend.scores import Scores
from glaim_stream.decode.dead_letters import DeadLetter, DeadLetterCause, InputRecord, Reject, dead_letters
from glaim_stream.kafka.offsets import Delivery
from glaim_stream.output.messages import Origin, Output, Publisher
from glaim_stream.pipeline.faults import Apart, CannotApply, Rebuild, messages_whatever_fails, unpublished
from glaim_stream.pipeline.pipeline import Applied, Asked, Pipeline
from glaim_stream.retry import pauses_s
from glaim_stream.windows.closing import Closed
from glaim_stream.windows.outages import Outage
from glaim_stream.windows.partition import PartitionWindows

log = logging.getLogger(__name__)

T = TypeVar("T")

IDLE_CHECK_S = 1.0


class Rebuilder(Protocol):
    """Reads the input again, from what the last commit needs up to `next_offset`."""

    async def rebuild(
        self, topic: str, partition: int, next_offset: int, apply: Callable[[Sequence[InputRecord]], Awaitable[None]]
    ) -> None:
        """Give `apply` the records that the windows at `next_offset` are made of, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Work:
    """A batch to be worked on; `done` is called once it is answered."""

    records: Sequence[InputRecord]
    delivery: Delivery
    done: Callable[[], object]


@dataclass(frozen=True, slots=True)
class _Applied:
    """A batch on its way from the first stage to the second."""

    closed: list[Closed]
    asked: Awaitable[list[Asked]]
    scores: Scores  # of the windows that closed it: a rebuild begins new ones
    rejects: list[Reject]
    outages: list[Outage]
    records: Sequence[InputRecord]
    rebuild_from: int
    origin: Origin
    work: Work | None  # None for steps that the wall clock closed
    learnt_again: bool = False  # probe windows of a rebuild: errors to take in, nothing to publish


class PartitionWorker:
    """Works on one partition until stopped."""

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
        """Start working.

        Args:
            topic: the input topic.
            partition: of it.
            pipeline: shared with the other partitions.
            publisher: takes output and dead letters.
            rebuilder: reads the input again.
            batches_in_flight: most batches between delivery and answer.
            on_crash: told of an error that ended the work: it must not go on as if nothing had happened.
            now_ms: wall time, epoch milliseconds.
        """
        self._topic, self._partition = topic, partition
        self._pipeline, self._publisher, self._rebuilder = pipeline, publisher, rebuilder
        self._now_ms = now_ms
        self._windows: PartitionWindows | None = None
        self._scores = pipeline.scores()
        self._next_offset = -1
        self._check_position = True
        self.rebuilding = True  # until the windows are whole for the first time, and while they are made anew
        self._last = Origin(-1, 0)
        self._incoming: asyncio.Queue[Work] = asyncio.Queue(1)
        self._applied: asyncio.Queue[_Applied] = asyncio.Queue(batches_in_flight)
        self._on_crash = on_crash
        self._tasks = [asyncio.create_task(self._apply_all()), asyncio.create_task(self._publish_all())]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    async def submit(self, work: Work) -> None:
        """Hand over a batch; waits while too many are in flight, which is the back-pressure."""
        await self._incoming.put(work)

    def check_position(self) -> None:
        """Tell the worker that the partition was assigned anew: another one may have worked on it meanwhile."""
        self._check_position = True

    async def stop(self) -> None:
        """Drop everything in flight; what was not answered will be delivered again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.critical("%s-%d: the work ended", self._topic, self._partition, exc_info=error)
            self._on_crash(error)

    async def _apply_all(self) -> None:
        while True:
            try:
                work = await asyncio.wait_for(self._incoming.get(), IDLE_CHECK_S)
            except TimeoutError:
                await self._close_idle()
                continue
            windows = await self._windows_for(work.delivery)
            try:
                applied = self._pipeline.apply(windows, work.records, now_ms=self._now_ms())
            except Exception as error:  # a fault of ours must not stop the partition
                self._fault(len(work.records), error)
                windows, applied = await self._apply_apart(work)
            await self._applied.put(self._on_its_way(windows, work, applied))

    async def _windows_for(self, delivery: Delivery) -> PartitionWindows:
        """The windows as they were before this batch: kept, or rebuilt from the input."""
        # Delivered again: the windows have it already. Delivered with a hole: compaction, or after an assignment the
        # work of somebody else.
        again = delivery.first_offset < self._next_offset
        moved = again or (self._check_position and delivery.first_offset != self._next_offset)
        self._check_position = False
        self._next_offset = delivery.next_offset
        if self._windows is not None and not moved:
            return self._windows
        self._windows, self._scores = None, self._pipeline.scores()  # until they are whole again
        self.rebuilding = True
        rebuild = await self._rebuilt(delivery.first_offset)
        if rebuild.probes:  # the weights follow from their errors: asked again, and settled before anything else is
            asked = asyncio.ensure_future(self._pipeline.ask([], rebuild.probes))
            learnt = _Applied([], asked, self._scores, [], [], [], 0, self._last, None, learnt_again=True)
            await self._applied.put(learnt)
        self._windows = rebuild.done()
        self.rebuilding = False
        return self._windows

    async def _rebuilt(self, next_offset: int) -> Rebuild:
        """Windows made of the records below `next_offset`; tries until the input can be read."""
        pauses = pauses_s()
        careful = False
        with metrics.rebuild_seconds.time():
            while True:
                rebuild = Rebuild(self._pipeline, self._now_ms, careful=careful)
                try:
                    await self._rebuilder.rebuild(self._topic, self._partition, next_offset, rebuild.apply)
                    return rebuild
                except CannotApply:  # some failed the first time too, and became dead letters then
                    log.exception("%s-%d: a rebuild leaves out what cannot be applied", self._topic, self._partition)
                    careful = True
                    continue
                except Exception:
                    metrics.rebuild_failures.inc()
                    pause_s = next(pauses)
                    log.exception(
                        "%s-%d: cannot rebuild, trying again in %.1f s", self._topic, self._partition, pause_s
                    )
                await asyncio.sleep(pause_s)

    async def _apply_apart(self, work: Work) -> tuple[PartitionWindows, Applied]:
        """Apply a batch of which some records fail, from windows that are whole again."""
        self._windows = None
        apart = Apart(self._pipeline, (await self._rebuilt(work.delivery.first_offset)).done())
        for _ in apart.tries(work.records, now_ms=self._now_ms()):
            await asyncio.sleep(0)  # the other partitions do not wait for all of it
        self._windows = apart.windows
        return apart.windows, apart.applied

    def _on_its_way(self, windows: PartitionWindows, work: Work, applied: Applied) -> _Applied:
        metrics.readings.inc(applied.readings)
        metrics.dropouts.inc(applied.dropouts)
        metrics.superseded.inc(applied.superseded)
        metrics.skewed.inc(applied.skewed)
        metrics.records.inc(len(work.records))
        newest = work.records[-1]
        self._last = Origin(newest.offset, newest.timestamp)
        label = str(self._partition)
        metrics.groups.labels(label).set(windows.groups)
        metrics.known_groups.set(len(self._pipeline.index.names))
        metrics.watermark_lag_seconds.labels(label).set((self._now_ms() - windows.clock.newest_event_ms) / 1000)
        metrics.newest_event_seconds.labels(label).set(windows.clock.newest_event_ms / 1000)
        upgrades = self._or_none(len(work.records), lambda: self._pipeline.upgrades(windows, self._scores))
        return _Applied(
            applied.closed,
            asyncio.ensure_future(self._pipeline.ask(applied.closed, applied.probes, upgrades)),
            self._scores,
            applied.rejects,
            applied.outages,
            work.records,
            windows.rebuild_from(work.delivery.next_offset),
            self._last,
            work,
        )

    async def _close_idle(self) -> None:
        if self._windows is None:
            return
        try:
            fed = self._windows.close_idle(self._now_ms())
        except Exception as error:
            self._fault(0, error)
            self._windows = None  # neither before nor after: made anew for the next batch
            return
        if fed.closed or fed.outages:
            asked = asyncio.ensure_future(self._pipeline.ask(fed.closed))
            applied = _Applied(fed.closed, asked, self._scores, [], fed.outages, [], 0, self._last, None)
            await self._applied.put(applied)

    async def _publish_all(self) -> None:
        while True:
            applied = await self._applied.get()
            if applied.learnt_again:
                await self._learn_again(applied)
                continue
            messages = await messages_whatever_fails(
                self._pipeline, applied.closed, applied.asked, applied.scores,
                partial(self._fault, len(applied.records)),
            )  # fmt: skip
            rejects = applied.rejects
            if messages is None:
                messages, rejects = [], [unpublished(record) for record in applied.records]
            letters = self._letters(applied.records, rejects)
            announcements = self._or_none(len(applied.records), partial(self._pipeline.announcements, applied.outages))
            await self._publisher.publish(Output(self._partition, applied.origin, messages, letters, announcements))
            for outage in applied.outages:
                metrics.outages.labels(outage.kind).inc()
            if applied.work is not None:
                applied.work.delivery.answer(applied.rebuild_from)
                applied.work.done()
                if messages:
                    latency_ms = self._now_ms() - applied.records[-1].timestamp
                    metrics.output_latency_seconds.observe(latency_ms / 1000)

    async def _learn_again(self, applied: _Applied) -> None:
        try:
            self._pipeline.settle(applied.scores, await applied.asked, again=True)
        except Exception as error:  # the weights begin without these errors
            self._fault(0, error)

    def _letters(self, records: Sequence[InputRecord], rejects: Sequence[Reject]) -> list[DeadLetter]:
        for cause, count in Counter(reject.cause for reject in rejects).items():
            if cause is DeadLetterCause.TOO_LATE:
                metrics.late_readings.inc(count)
            else:
                metrics.dead_letters.labels(cause.value).inc(count)
        return dead_letters(records, rejects, topic=self._topic, partition=self._partition)

    def _or_none(self, records: int, make: Callable[[], list[T]]) -> list[T]:
        """What is made beside the rows; a fault there costs that and not the partition."""
        try:
            return make()
        except Exception as error:
            self._fault(records, error)
            return []

    def _fault(self, records: int, error: Exception) -> None:
        log.error("%s-%d: a batch of %d records failed", self._topic, self._partition, records, exc_info=error)
        metrics.worker_faults.inc()
