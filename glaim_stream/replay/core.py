"""One partition through the pipeline: the steps of partition.py without commits, rebuilds and back-pressure."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from glaim_stream import metrics
from glaim_stream.decode.dead_letters import InputRecord, Reject, dead_letters
from glaim_stream.output.messages import Origin, Output, Publisher
from glaim_stream.pipeline.faults import messages_whatever_fails, unpublished
from glaim_stream.pipeline.pipeline import Applied, Asked, Pipeline
from glaim_stream.replay.careful import CarefulWindows
from glaim_stream.windows.closing import Closed
from glaim_stream.windows.outages import Outage

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Counts:
    """What a replay has done so far."""

    records: int = 0
    warm_up_records: int = 0
    readings: int = 0
    rows: int = 0
    messages: int = 0
    rejects: Counter[str] = field(default_factory=Counter)  # by cause
    faults: int = 0  # times that we failed on a batch
    outages: int = 0  # times that a group went dark or spoke again


@dataclass(frozen=True, slots=True)
class _Asked:
    closed: Sequence[Closed]
    answers: Awaitable[list[Asked]]
    rejects: list[Reject]
    outages: Sequence[Outage]
    records: Sequence[InputRecord]
    publish: bool


class PartitionReplay:
    """The windows of one partition, fed in order; several batches wait for the imputer at a time."""

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
        """Begin with empty windows.

        Args:
            pipeline: shared with the other partitions.
            publisher: takes the rows, and the dead letters beside them.
            counts: shared with the other partitions.
            topic: where the records come from, for the dead letters.
            partition: its number.
            in_flight: most batches that wait for the imputer.
            now_ms: wall time, epoch milliseconds.
        """
        self._pipeline, self._publisher, self._counts = pipeline, publisher, counts
        self._topic, self._partition = topic, partition
        self._in_flight = in_flight
        self._careful = CarefulWindows(pipeline, now_ms=now_ms, on_fault=self._fault)
        self._scores = pipeline.scores()
        self._waiting: deque[_Asked] = deque()
        self._origin = Origin(-1, 0)

    async def take(self, records: Sequence[InputRecord], *, publish: bool = True) -> None:
        """Apply records; without `publish` they only warm the windows up, and nothing is said of them."""
        applied = self._careful.apply(records)
        if publish:
            self._counts.records += len(records)
            self._counts.readings += applied.readings
        else:
            self._counts.warm_up_records += len(records)
        await self._ask(applied, records, publish=publish)

    async def finish(self, *, close: bool) -> None:
        """Wait for everything; with `close`, publish the open steps as the worker does when nothing more comes."""
        if close:
            try:
                end = self._careful.windows.close_end()
            except Exception as error:  # the steps that are open stay so
                self._fault(0, error)
            else:
                await self._ask(Applied(end.closed, [], probes=end.probes, outages=end.outages), [], publish=True)
        while self._waiting:
            await self._settle(self._waiting.popleft())

    async def _ask(self, applied: Applied, records: Sequence[InputRecord], *, publish: bool) -> None:
        answers = asyncio.ensure_future(self._pipeline.ask(applied.closed, applied.probes))
        self._waiting.append(_Asked(applied.closed, answers, applied.rejects, applied.outages, records, publish))
        while len(self._waiting) > self._in_flight:
            await self._settle(self._waiting.popleft())

    async def _settle(self, asked: _Asked) -> None:
        if not asked.publish:
            try:
                self._pipeline.settle(self._scores, await asked.answers)
            except Exception as error:  # the weights begin without these errors
                self._fault(len(asked.records), error)
            return
        messages = await messages_whatever_fails(
            self._pipeline, asked.closed, asked.answers, self._scores, partial(self._fault, len(asked.records))
        )
        rejects = asked.rejects
        if messages is None:
            messages, rejects = [], [unpublished(record) for record in asked.records]
        if asked.records:
            self._origin = Origin(asked.records[-1].offset, asked.records[-1].timestamp)
        self._counts.messages += len(messages)
        self._counts.rows += sum(message.rows for message in messages)
        self._counts.rejects.update(reject.cause.value for reject in rejects)
        self._counts.outages += len(asked.outages)
        letters = dead_letters(asked.records, rejects, topic=self._topic, partition=self._partition)
        announcements = self._pipeline.announcements(asked.outages)
        await self._publisher.publish(Output(self._partition, self._origin, messages, letters, announcements))

    def _fault(self, records: int, error: Exception) -> None:
        log.error("%s-%d: a batch of %d records failed", self._topic, self._partition, records, exc_info=error)
        metrics.worker_faults.inc()
        self._counts.faults += 1
