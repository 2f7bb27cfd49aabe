"""The live work on one partition: batches in, output acknowledged, then the batch answered. Knows no Kafka client.

One task applies each batch to the windows, in order; a second one waits for the imputer, publishes in the same order
and answers. So several batches wait for the model at a time, and no batch is answered before the broker has
acknowledged everything that it caused. When the partition may belong to another worker, all tasks drop what they hold
and begin again from the last commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from glaim_stream.core import metrics
from glaim_stream.core.errors import OwnershipLost
from glaim_stream.core.readings import InputRecord
from glaim_stream.core.retry import OWNERSHIP
from glaim_stream.core.stamps import ticks_text
from glaim_stream.core.times import steady_ms
from glaim_stream.health import DETECTORS
from glaim_stream.kafka import Commit, Delivery
from glaim_stream.output import Output
from glaim_stream.pipeline import PartitionEngine, Pending, Pipeline
from glaim_stream.windows import NEVER_MS, PartitionWindows, holed_groups
from glaim_stream.worker.batches import Batch
from glaim_stream.worker.dark_groups import DarkGroups
from glaim_stream.worker.due_rows import DueRows
from glaim_stream.worker.outlet import Outlet
from glaim_stream.worker.quality_keys import QualityKeys
from glaim_stream.worker.restore import Rebuilder, TopicRestore
from glaim_stream.worker.timeliness import Timeliness
from glaim_stream.worker.unpublished import UnpublishedQueue

log = logging.getLogger(__name__)

IDLE_CHECK_S = 1.0
HOLES_CHECK_S = 15.0  # pause between counts; one takes 27 ms for 10,000 groups of 8 sensors, 0.2 % of a core
_CANCEL_AGAIN_S = 1.0
_COMMIT_KEPT_S = 2.0  # a stop and a rebalance do not wait longer for a broker that is away


async def _always() -> bool:
    return True


async def _unknown() -> int | None:
    return None


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: one that catches its cancellation would hold its partition for ever."""
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=_CANCEL_AGAIN_S)


class PartitionWorker:
    """The tasks that process one partition until `stop`."""

    def __init__(
        self,
        topic: str,
        partition: int,
        pipeline: Pipeline,
        outlet: Outlet,
        rebuilder: Rebuilder,
        *,
        batches_in_flight: int,
        commit_interval_s: float = 0.5,
        timeliness_target_s: float = 10.0,
        on_crash: Callable[[BaseException], None] = lambda error: None,
        confirm: Callable[[], Awaitable[bool | None]] = _always,
        committed: Callable[[], Awaitable[int | None]] = _unknown,
        now_ms: Callable[[], int] = steady_ms,
        on_published: Callable[[Sequence[Output]], None] | None = None,
        quality: QualityKeys | None = None,
    ) -> None:
        """Start the tasks.

        Args:
            topic: the input topic.
            partition: number of the input partition.
            pipeline: shared with the other partitions.
            outlet: publishes output and dead letters.
            rebuilder: reads the input topic again.
            batches_in_flight: most batches that wait between the two tasks.
            commit_interval_s: longest time that a commit without output waits for a transaction with output, seconds.
            timeliness_target_s: longest time from a record to its row that counts as in time, seconds.
            on_crash: called with an error that ended a task; the worker must not carry on after it.
            confirm: asks a broker whether the partition is still ours; returns None when no broker answers. Without a
                confirmation the wall clock closes no step.
            committed: asks a broker for the offset that the group has committed; 0 where there is none, None when no
                broker answers. It tells where a partition continues that delivers nothing after an assignment.
            now_ms: wall clock without jumps, epoch milliseconds.
            on_published: called with outputs that the broker has acknowledged; it must only record them.
            quality: deletes old records of live accuracy; None where none are published.
        """
        self._on_published, self._quality = on_published, quality
        self._topic, self._partition = topic, partition
        self._pipeline, self._outlet, self._confirm, self._committed = pipeline, outlet, confirm, committed
        self._now_ms = now_ms
        self._own_commit: Commit | None = None  # the newest commit made for the current windows
        self._kept: Commit | None = None  # exactly once: the newest of batches that caused no output; not committed yet
        self._commit_interval_s = commit_interval_s
        self._publishing = asyncio.Lock()
        self._timeliness = Timeliness(timeliness_target_s)
        self._due = DueRows(partition, timeliness_target_s)
        self._dark = DarkGroups(pipeline.index.names)
        self._counted: PartitionWindows | None = None  # the windows whose dark groups `_dark` has taken over
        restore = TopicRestore(
            pipeline, rebuilder, topic=topic, partition=partition, now_ms=now_ms, own_commit=lambda: self._own_commit
        )
        self._engine = PartitionEngine(pipeline, restore, topic=topic, partition=partition, now_ms=now_ms)
        self._next_offset = -1
        self._position_unsure = True
        self._begun = False  # whether the outlet is ready for this partition
        self._begun_quiet = False  # whether it became ready without a batch, and none has come since
        self._seeks = 0  # batches with fewer seeks do not continue where the partition does
        self._outstanding: set[Batch] = set()
        self._incoming: asyncio.Queue[Batch] = asyncio.Queue(1)
        self._applied = UnpublishedQueue(batches_in_flight, transactions=outlet.exactly_once)
        self._on_crash = on_crash
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._report_crash)

    @property
    def engine(self) -> PartitionEngine:
        """The engine with windows and scores; read it only in the event loop."""
        return self._engine

    @property
    def rebuilding(self) -> bool:
        """Whether the windows are incomplete: before the first batch, and while they are rebuilt."""
        return self._engine.restoring

    @property
    def newest_event_ms(self) -> int | None:
        """The newest event time; None before the first usable reading, and while the windows are rebuilt."""
        windows = self._engine.windows
        return None if windows is None or windows.clock.newest_event_ms == NEVER_MS else windows.clock.newest_event_ms

    async def submit(self, batch: Batch) -> None:
        """Hand over a batch; wait while too many are in flight (back-pressure)."""
        self._outstanding.add(batch)
        await self._incoming.put(batch)

    def check_position(self) -> None:
        """Compare the offset of the next batch: the partition was reassigned, and another worker may have had it."""
        self._position_unsure = True

    async def stop(self) -> None:
        """Drop everything in flight; batches that were not answered will be delivered again."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.commit_kept()
        await self._engine.close()
        if self._quality is not None:
            await self._quality.close()
        await self._outlet.close()

    async def commit_kept(self) -> None:
        """Commit what waits for output, so that the next owner reads less again; give up where no broker answers.

        Records that are read again cause no output then either.
        """
        with suppress(OwnershipLost, TimeoutError):
            async with asyncio.timeout(_COMMIT_KEPT_S):
                await self._commit_kept()

    async def _commit_kept(self) -> None:
        async with self._publishing:
            if self._kept is not None:
                await self._outlet.publish([], self._kept)
                self._kept = None

    def _report_crash(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.critical("%s-%d: processing ended by an error", self._topic, self._partition, exc_info=error)
            self._on_crash(error)

    async def _run(self) -> None:
        while True:
            work = [self._apply_batches(), self._publish_batches(), self._watch_due_rows(), self._watch_holes()]
            if self._outlet.exactly_once:
                work.append(self._commit_in_intervals())
            tasks = [asyncio.create_task(each) for each in work]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _end(tasks)
            results = [None if task.cancelled() else task.exception() for task in tasks]
            errors = [each for each in results if isinstance(each, Exception)]
            lost = [error for error in errors if isinstance(error, OwnershipLost)]
            for error in errors:
                if error not in lost:
                    raise error
            if not lost:  # such as a cancellation that came from within
                raise RuntimeError("a task of the partition ended without an error")
            await self._begin_again(lost[0])

    async def _begin_again(self, lost: OwnershipLost) -> None:
        """Drop everything in flight, which stays uncommitted, and wait until the partition is confirmed as ours.

        Where it is not ours, this ends when the worker is stopped.
        """
        log.warning("%s-%d: everything in flight is dropped: %s", self._topic, self._partition, lost)
        metrics.ownership_losses.inc()
        await self._engine.close()
        self._drop_windows()
        self._kept = None
        if self._quality is not None:
            await self._quality.restart()
        self._begun, self._position_unsure = False, True
        pauses = OWNERSHIP.pauses()
        while True:
            self._applied.clear()
            self._due.clear()
            while not self._incoming.empty():
                self._incoming.get_nowait()
            for batch in list(self._outstanding):
                self._done(batch)
            if await self._confirm():
                return
            await asyncio.sleep(next(pauses))

    def _done(self, batch: Batch) -> None:
        self._outstanding.discard(batch)
        batch.done()
        batch.records, batch.pending = (), None  # the batch is the value of an event that Faust holds for longer

    async def _apply_batches(self) -> None:
        while True:
            try:
                async with asyncio.timeout(IDLE_CHECK_S):  # wait_for of Python 3.11 may swallow a cancellation
                    batch = await self._incoming.get()
            except TimeoutError:
                await self._close_idle()
                continue
            delivery = batch.delivery
            assert delivery is not None
            if not self._begun:
                await self._begin(delivery.first_offset, batch.seeks)
            elif self._begun_quiet and delivery.first_offset != self._next_offset:
                self._seeks = self._outlet.continue_at(self._next_offset, batch.seeks)
            self._begun_quiet = False
            if batch.seeks < self._seeks:
                self._done(batch)
                continue
            records = self._new_records(batch.records, delivery)
            if not records:
                await self._applied.put(batch)
                continue
            batch.pending = await self._engine.apply(records, self._hand_over)
            windows = self._engine.windows
            assert windows is not None
            self._set_gauges(windows)
            batch.commit = self._commit(windows, delivery.next_offset)
            await self._put(batch)

    async def _begin(self, first_offset: int | None, seeks: int) -> None:
        first, self._seeks = await self._outlet.begin(first_offset, seeks)
        self._begun = True
        if self._outlet.exactly_once:
            self._drop_windows()
            self._next_offset, self._position_unsure = first, False

    def _new_records(self, records: Sequence[InputRecord], delivery: Delivery) -> Sequence[InputRecord]:
        """Return the records of a batch that are to be applied; forget the windows when they belong elsewhere.

        At least once, a batch that was delivered before is applied again, to rebuilt windows. Exactly once, its output
        is in flight, because a commit of another worker would have ended it: records already applied are left out.
        """
        if not self._outlet.exactly_once:
            if self._has_moved(delivery):
                self._drop_windows()
            return records
        applied_to = self._next_offset
        if self._position_unsure and delivery.first_offset > applied_to:
            self._drop_windows()
        self._position_unsure = False
        self._next_offset = max(applied_to, delivery.next_offset)
        if delivery.first_offset >= applied_to:
            return records
        return [record for record in records if record.offset >= applied_to]

    def _commit(self, windows: PartitionWindows, next_offset: int) -> Commit:
        rebuild_from = windows.rebuild_from(next_offset)
        stamps = ticks_text(windows.stamps.needed(rebuild_from))
        self._own_commit = Commit(next_offset, rebuild_from, windows.clock_closes(rebuild_from), stamps)
        return self._own_commit

    def _drop_windows(self) -> None:
        """Forget windows that belong elsewhere in the topic; from here on the last commit counts."""
        self._engine.drop_windows()
        self._own_commit = None

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
        """Close steps by the wall clock, while a broker confirms that the partition is ours.

        A worker that was paused, suspended or cut off wakes up long after its last poll: by the clock everything is
        idle, and its successor has published these steps with their readings.

        Each slice of them has a commit of its own, which records how far the clock has come with it. A batch that
        arrives in between goes first.
        """
        if self._position_unsure:
            self._position_unsure = False  # an assignment meanwhile sets it again
            known = await self._continues_quietly()
            if not known or self._position_unsure:
                self._position_unsure = True
                return
        while self._incoming.empty():
            windows = self._engine.windows
            if windows is None or not windows.is_idle(self._now_ms()) or not await self._confirm():
                return
            pending = self._engine.close_idle(self._next_offset)
            if pending is None:
                return
            commit = self._commit(windows, self._next_offset) if self._outlet.exactly_once else None
            await self._put(Batch(pending=pending, commit=commit))
            await asyncio.sleep(0)  # let the other partitions run

    async def _continues_quietly(self) -> bool:
        """Take up a partition that delivers nothing after an assignment, as far as the group has committed.

        Another worker may have had it, so that the windows are older than its output; after a start there are none.
        Where less is committed than these windows have seen, the rest is delivered again.

        Returns:
            Whether the windows are those at the commit.
        """
        committed, applied_to = await self._committed(), self._next_offset
        if committed is None or (committed == 0 and applied_to <= 0) or not await self._confirm():
            return False
        if self._outlet.exactly_once and not self._begun:
            await self._begin(None, self._seeks)
            self._begun_quiet = self._next_offset >= applied_to
            if not self._begun_quiet:  # what was in flight is dropped, and is to be delivered again
                self._seeks = self._outlet.continue_at(self._next_offset, self._seeks)
        elif committed < applied_to:
            return False
        elif committed > applied_to:
            if self._outlet.exactly_once:
                raise OwnershipLost(f"another worker has committed {committed}, and the windows end at {applied_to}")
            self._drop_windows()
            self._next_offset = committed
        await self._engine.restore(self._next_offset)
        return True

    async def _hand_over(self, pending: Pending) -> None:
        """Hand over a slice of a batch that is not its last."""
        await self._put(Batch(pending=pending, more=True))

    async def _put(self, applied: Batch) -> None:
        """Hand over an applied batch or slice; wait while too many are in flight."""
        assert applied.pending is not None
        self._due.applied(applied.pending.applied.due_rows, self._now_ms())
        await self._applied.put(applied)

    async def _watch_due_rows(self) -> None:
        """Show how many rows are overdue, also while the other tasks wait for a broker or an imputer."""
        while True:
            now_ms, windows = self._now_ms(), self._engine.windows
            since_ms = self._due.overdue_since_ms(now_ms)
            self._due.show_overdue(now_ms, 0 if windows is None else windows.owed_rows(round(since_ms)))
            await asyncio.sleep(IDLE_CHECK_S)

    async def _watch_holes(self) -> None:
        """Count the groups with holes; with many groups, other tasks run in between."""
        while True:
            windows, count = self._engine.windows, 0
            if windows is None:
                await asyncio.sleep(IDLE_CHECK_S)
                continue
            for model in windows.models:
                for part in holed_groups(model):
                    count += part
                    await asyncio.sleep(0)
            metrics.groups_with_holes.labels(str(self._partition)).set(count)
            await asyncio.sleep(HOLES_CHECK_S)

    async def _publish_batches(self) -> None:
        while True:
            together, outputs = await self._applied.next_to_publish(self._output)
            commits = [applied.commit for applied in together if applied.commit is not None]
            await self._publish(outputs, commits[-1] if commits else None)
            self._due.published(outputs)
            self._count_rows(together, outputs)
            for applied in together:
                self._answer(applied)

    async def _publish(self, outputs: Sequence[Output], commit: Commit | None) -> None:
        """Publish outputs; a commit without output waits, because a transaction of offsets alone costs as much."""
        if not outputs:
            return
        async with self._publishing:
            if self._outlet.exactly_once and all(output.is_empty for output in outputs):
                self._kept = commit
            else:
                await self._outlet.publish(outputs, commit)
                self._kept = None
        if self._on_published is not None:
            self._on_published(outputs)

    async def _commit_in_intervals(self) -> None:
        """Commit what no output has taken along: lag and the records that a restart reads again follow from it."""
        while True:
            await asyncio.sleep(self._commit_interval_s)
            await self._commit_kept()

    async def _output(self, pending: Pending) -> Output:
        output = await self._engine.finish(pending)
        self._due.finished()
        self._dark.update(pending.applied.outages, self._now_ms())
        self._count_groups()
        return output if self._quality is None else self._quality.complete(output)

    def _count_groups(self) -> None:
        label = str(self._partition)
        metrics.dark_groups.labels(label).set(len(self._dark))
        windows = self._engine.windows
        if windows is not None:
            metrics.speaking_groups.labels(label).set(windows.groups - len(windows.dark_groups()))
            faulty = windows.faulty_sensors()
            for detector in DETECTORS:
                metrics.faulty_sensors.labels(label, detector).set(faulty[detector])

    def _count_rows(self, together: Sequence[Batch], outputs: Sequence[Output]) -> None:
        """Count published rows as in time or late. Rows closed by the wall clock have no record to be late after."""
        if all(applied.delivery is None and not applied.more for applied in together):
            return
        rows = sum(message.rows for output in outputs for message in output.messages)
        stamps = [record.timestamp for applied in together for record in applied.records]
        self._timeliness.add(rows, stamps, self._now_ms())

    def _answer(self, applied: Batch) -> None:
        delivery, commit = applied.delivery, applied.commit
        if delivery is None:
            return
        if commit is None:  # applied before, by another batch
            delivery.answer(delivery.next_offset)
        else:
            delivery.answer(min(commit.rebuild_from, delivery.next_offset), commit.clock, commit.stamps)
        if applied.pending is not None and applied.pending.applied.closed:
            metrics.output_latency_seconds.observe((self._now_ms() - applied.records[-1].timestamp) / 1000)
        self._done(applied)

    def _set_gauges(self, windows: PartitionWindows) -> None:
        label = str(self._partition)
        metrics.groups.labels(label).set(windows.groups)
        metrics.known_groups.set(len(self._pipeline.index))
        if windows is not self._counted:
            self._counted = windows
            self._dark.restart(windows.dark_groups(), self._now_ms())
        self._count_groups()
        metrics.watermark_updated_seconds.labels(label).set(self._now_ms() / 1000)
        newest_ms = self.newest_event_ms
        if newest_ms is not None:  # before the first usable reading there is no event time to compare with
            metrics.watermark_lag_seconds.labels(label).set((self._now_ms() - newest_ms) / 1000)
            metrics.newest_event_seconds.labels(label).set(newest_ms / 1000)
