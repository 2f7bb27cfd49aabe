"""The engine of one partition: batches of records in, the output that they cause out. No Kafka, no queues.

Its owner drives it in two stages. `apply` decodes a batch, applies it to the windows and starts the imputer; batches
must be applied one after the other, in order. `finish` waits for the imputer and makes the output; batches must be
finished in the same order, but several may wait for the imputer in between.

An internal error costs as little as possible: records that cannot be applied become dead letters, holes that the model
cannot fill are filled in a simpler way, and every other record and row stays as it would have been.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from glaim_stream.core import metrics
from glaim_stream.core.readings import InputRecord
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.decode import dead_letters
from glaim_stream.output import Origin, Output
from glaim_stream.output.quality import Record
from glaim_stream.pipeline.fallbacks import messages_with_fallbacks
from glaim_stream.pipeline.isolation import Isolation
from glaim_stream.pipeline.partition_scores import PartitionScores
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.pipeline.querying import Answer
from glaim_stream.pipeline.restore import Restore
from glaim_stream.windows import Applied, Closed, PartitionWindows, Probes, joined_applied

log = logging.getLogger(__name__)

_RECORDS_AT_A_TIME = 200  # some 20 ms

T = TypeVar("T")
Query = asyncio.Task[list[Answer]]


@dataclass(frozen=True, slots=True)
class Pending:
    """A batch that was applied and whose holes are with the imputer.

    Attributes:
        records: records of the batch or slice; empty where the clock or the end of the input closed the steps, and for
            a slice in the middle of a record.
        applied: effects of the batch.
        query: the imputer's answers for it.
        relearning: the answers for the probes of restored windows, whose errors come before this batch's.
        scores: scores of the windows that closed these steps; restored windows begin new ones.
        origin: the last record that the output includes.
        repeats: whether an internal error came in the middle of a record after slices of it were handed over. This
            last slice of the batch then makes all rows since the last slice with `records` again.
    """

    records: Sequence[InputRecord]
    applied: Applied
    query: Query
    relearning: Query | None
    scores: PartitionScores
    origin: Origin
    repeats: bool = False

    @property
    def ready(self) -> bool:
        """Whether `finish` will not wait for the imputer."""
        return self.query.done() and (self.relearning is None or self.relearning.done())


class PartitionEngine:
    """Windows, scores and pending queries of one partition."""

    def __init__(
        self,
        pipeline: Pipeline,
        restore: Restore,
        *,
        topic: str,
        partition: int,
        now_ms: Callable[[], int],
        on_fault: Callable[[], object] = lambda: None,
    ) -> None:
        """Start without windows: the first batch restores them.

        Args:
            pipeline: pipeline of all partitions.
            restore: gives the windows before a batch, when they are not there or an error has left them half changed.
            topic: the input topic, for dead letters and log lines.
            partition: number of the partition.
            now_ms: wall time, epoch milliseconds; arrivals and idle time are measured by it, so it must not jump.
            on_fault: callback after each internal error, which is logged and counted here.
        """
        self._pipeline, self._restore = pipeline, restore
        self._topic, self._partition = topic, partition
        self._now_ms, self._on_fault = now_ms, on_fault
        self.windows: PartitionWindows | None = None  # None: to be restored before the next batch
        self.restoring = True  # True until the windows are complete for the first time, and while they are restored
        self._scores = pipeline.scores()
        self._origin = Origin(-1, 0)
        self._queries: set[Query] = set()
        self._unlearned: list[Probes] = []  # probes of restored windows that no batch has had learned yet
        self._asked_again: Applied | None = None  # holds the codes of restored probes until they are settled

    @property
    def scores(self) -> PartitionScores:
        """Scores of the current windows."""
        return self._scores

    def drop_windows(self) -> None:
        """Forget windows and scores, so that the next batch restores them."""
        self.windows, self._scores, self._unlearned = None, self._pipeline.scores(), []

    async def restore(self, next_offset: int) -> None:
        """Restore windows that are not there, for a partition that is quiet; other batches must not come meanwhile.

        Args:
            next_offset: the offset at which the partition continues.
        """
        if self.windows is None:
            self.windows, self._unlearned = await self._restored(next_offset)

    async def apply(
        self, records: Sequence[InputRecord], hand_over: Callable[[Pending], Awaitable[object]] | None = None
    ) -> Pending:
        """Apply a batch and start the imputer for the steps that it closed.

        Records that cannot be applied become rejects.

        Args:
            records: records of the batch.
            hand_over: takes the slices of a large batch in order, as they are made; it may wait until there is room.
                Without it the slices are kept.

        Returns:
            The batch, or the last slice of it.
        """
        if self._origin.offset < 0:  # origin of slices before the first record that is applied completely
            self._origin = Origin(records[0].offset - 1, records[0].timestamp)
        windows = self.windows
        if windows is None:
            windows, self._unlearned = await self._restored(records[0].offset)
        relearning = self._relearning()
        slices: Iterator[Applied] | None = None
        begun = done = 0  # records that were applied completely before the slice, and after it
        partial_slices = 0  # slices of a record that is not applied completely
        repeats = False
        kept: list[Applied] = []
        while True:
            try:
                slices = slices or self._pipeline.slices(windows, records, now_ms=self._now_ms())
                applied = next(slices)
            except Exception as error:
                self._fault(len(records), error)
                begun = done
                windows, applied = await self._apply_isolated(records[done:])
                if hand_over is None:
                    del kept[len(kept) - partial_slices :]
                elif partial_slices:  # the scores have their errors
                    repeats, self._scores = True, self._pipeline.scores()
                    relearning = self._relearning()
                self._unlearned = []
                break
            begun, done = done, applied.until
            partial_slices = 0 if done > begun else partial_slices + 1
            if done > begun:
                self._restore.note_applied(records[begun:done], windows)
            if done == len(records):
                break
            if hand_over is None:
                kept.append(applied)
            else:
                await hand_over(self._early(records[begun:done], applied, relearning))
                relearning = None
                await asyncio.sleep(0)  # let the other partitions run
        if kept:
            begun, applied = 0, self._pipeline.codes.hold(joined_applied([*kept, applied]))
        self.windows = windows
        self._origin = Origin(records[-1].offset, records[-1].timestamp)
        count_applied(len(records) - begun, applied)
        upgrades = self._or_nothing(len(records), partial(self._pipeline.upgrades, windows, self._scores))
        query = self._ask(applied.closed, applied.probes, upgrades)
        return Pending(records[begun:], applied, query, relearning, self._scores, self._origin, repeats)

    def _early(self, records: Sequence[InputRecord], applied: Applied, relearning: Query | None) -> Pending:
        """Start the imputer for a slice of a batch that is not its last; it completes `records`, maybe none."""
        if records:
            self._origin = Origin(records[-1].offset, records[-1].timestamp)
        count_applied(len(records), applied)
        query = self._ask(applied.closed, applied.probes)
        return Pending(records, applied, query, relearning, self._scores, self._origin)

    def close_idle(self, next_offset: int = 0) -> Pending | None:
        """Close the steps that are over by the wall clock, once nothing has arrived for the idle timeout.

        Args:
            next_offset: the offset after the last record that was applied.
        """
        return self._close(lambda windows: windows.close_idle(self._now_ms(), next_offset))

    def close_end(self) -> Pending | None:
        """Close the steps that are still open, at the end of the input."""
        return self._close(lambda windows: windows.close_end())

    async def finish(self, pending: Pending) -> Output:
        """Wait for the imputer's answers and make the output."""
        await self._relearn(pending)
        records, rejects, outages = pending.records, pending.applied.rejects, pending.applied.outages
        messages = await messages_with_fallbacks(
            self._pipeline, pending.applied.closed, pending.query, pending.scores, partial(self._fault, len(records))
        )
        if messages is None:
            detail = "the rows of its batch could not be made"
            messages, rejects = [], [Reject(each.offset, DeadLetterCause.PROCESSING, detail) for each in records]
        count_rejects(rejects)
        for outage in outages:
            metrics.outages.labels(outage.kind).inc()
        letters = dead_letters(records, rejects, topic=self._topic, partition=self._partition)
        announcements = self._or_nothing(len(records), partial(self._pipeline.announcements, outages))
        health = self._or_nothing(len(records), partial(self._pipeline.health_messages, pending.applied.health))
        for event in pending.applied.health:
            metrics.sensor_health_events.labels(event.detector, event.state).inc()
        quality = await self._quality_records(pending.scores)
        return Output(
            self._partition,
            pending.origin,
            messages,
            letters,
            announcements,
            pending.applied.due_rows,
            quality,
            health,
            rejects,
            len(records),
        )

    async def _quality_records(self, scores: PartitionScores) -> list[Record]:
        """The records of the stretches that are over; with many groups, other partitions run in between."""
        records: list[Record] = []
        try:
            for record in () if scores.quality is None else scores.quality.take():
                records.append(record)
                if len(records) % _RECORDS_AT_A_TIME == 0:
                    await asyncio.sleep(0)
        except Exception as error:  # the rows are published without them
            self._fault(0, error)
        return records

    async def learn(self, pending: Pending) -> None:
        """Learn the errors of a batch whose output is not wanted."""
        await self._relearn(pending)
        await self._settle_errors(pending.query, pending)

    async def close(self) -> None:
        """Cancel the queries that are pending."""
        queries = list(self._queries)
        for query in queries:
            query.cancel()
        await asyncio.gather(*queries, return_exceptions=True)

    async def _restored(self, next_offset: int) -> tuple[PartitionWindows, list[Probes]]:
        self.windows, self.restoring = None, True
        restored = await self._restore.before(next_offset)
        self.restoring = False
        self._asked_again = self._pipeline.codes.hold(Applied(probes=restored.probes))
        return restored.windows, restored.probes

    async def _apply_isolated(self, records: Sequence[InputRecord]) -> tuple[PartitionWindows, Applied]:
        """Apply a batch of which some records fail, to restored windows."""
        windows, self._unlearned = await self._restored(records[0].offset)
        isolation = Isolation(self._pipeline, windows)
        for _ in isolation.attempts(records, now_ms=self._now_ms()):
            await asyncio.sleep(0)  # let the other partitions run
        self._restore.note_isolated(isolation.windows)
        return isolation.windows, isolation.take_applied()

    def _close(self, close: Callable[[PartitionWindows], Applied]) -> Pending | None:
        if self.windows is None:
            return None
        try:
            applied = self._pipeline.codes.hold(close(self.windows))
        except Exception as error:
            self._fault(0, error)
            self.drop_windows()  # some of the steps may be closed and others not
            return None
        if not applied.closed and not applied.outages and not applied.due_rows:
            return None
        relearning = self._relearning()
        query = self._ask(applied.closed, by_clock=True)
        return Pending([], applied, query, relearning, self._scores, self._origin)

    def _relearning(self) -> Query | None:
        """Have the probes of restored windows answered, once; None where there are none."""
        probes, self._unlearned = self._unlearned, []
        return self._ask([], probes) if probes else None

    def _ask(
        self,
        closed: Sequence[Closed],
        probes: Sequence[Probes] = (),
        upgrades: Sequence[Closed] = (),
        *,
        by_clock: bool = False,
    ) -> Query:
        query = asyncio.create_task(self._pipeline.query(closed, probes, upgrades, by_clock=by_clock))
        self._queries.add(query)
        query.add_done_callback(self._queries.discard)
        return query

    async def _relearn(self, pending: Pending) -> None:
        if pending.relearning is not None:
            await self._settle_errors(pending.relearning, pending)
            self._asked_again = None

    async def _settle_errors(self, query: Query, pending: Pending) -> None:
        try:
            self._pipeline.settle(pending.scores, await query, again=True)
        except Exception as error:  # the weights omit these errors
            self._fault(len(pending.records), error)

    def _or_nothing(self, records: int, make: Callable[[], list[T]]) -> list[T]:
        """Make the output beside the rows; an error there costs only that output."""
        try:
            return make()
        except Exception as error:
            self._fault(records, error)
            return []

    def _fault(self, records: int, error: Exception) -> None:
        log.error(
            "%s-%d: internal error in a batch of %d records", self._topic, self._partition, records, exc_info=error
        )
        metrics.worker_faults.inc()
        self._on_fault()


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
