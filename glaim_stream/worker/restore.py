"""Restores the windows of a live partition: they are a function of the input topic, so the worker reads it again."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from glaim_stream.core import metrics
from glaim_stream.core.readings import InputRecord
from glaim_stream.core.retry import REBUILD
from glaim_stream.core.stamps import ticks_of
from glaim_stream.kafka import Commit
from glaim_stream.pipeline import Isolation, Pipeline, Restore, Restored
from glaim_stream.windows import Applied, ClockClose, PartitionWindows, Probes, newest_steps

log = logging.getLogger(__name__)


Apply = Callable[[Sequence[InputRecord]], Awaitable[None]]
Recall = Callable[[Commit], None]


class Rebuilder(Protocol):
    """A reader of the input topic, from the first offset that the last commit needs up to `next_offset`."""

    async def rebuild(self, topic: str, partition: int, next_offset: int, apply: Apply, recall: Recall) -> None:
        """Pass to `apply`, in order, the records below `next_offset` that make up the windows there.

        Before that, pass the last commit to `recall`: it holds the decisions of the wall clock.
        """
        ...


class CannotApply(Exception):
    """Some records of a rebuild cannot be applied: it must start again and isolate them."""


class Rebuild:
    """Windows that are being rebuilt. A rebuilder passes the records that it reads to `apply`."""

    def __init__(self, pipeline: Pipeline, now_ms: Callable[[], int], *, isolate: bool) -> None:
        """Start with empty windows.

        Args:
            pipeline: applies the records.
            now_ms: wall time, epoch milliseconds.
            isolate: leave out the records that cannot be applied, which costs a copy of the windows for each poll;
                without it, `apply` raises CannotApply.
        """
        self._pipeline, self._now_ms = pipeline, now_ms
        self._windows = pipeline.windows()
        self._windows.rebuilding = True
        self._isolation = Isolation(pipeline, self._windows) if isolate else None
        self._clock: deque[ClockClose] = deque()  # closes to repeat, oldest first
        self._probes: list[Probes] = []  # probes of the newest `error_steps`, whose errors the scores remember

    def recall(self, commit: Commit) -> None:
        """Judge the records' times as before this commit, and repeat between them what the wall clock published."""
        self._made.stamps.recall(ticks_of(commit.stamps), commit.offset)
        self._clock = deque(commit.clock)

    async def apply(self, records: Sequence[InputRecord]) -> None:
        """Apply records without publishing anything.

        Yields to the event loop between them, because a rebuild takes long.

        Raises:
            CannotApply: a record cannot be applied, and the rebuild does not isolate.
        """
        start = 0
        while self._clock and self._clock[0].offset <= records[-1].offset:
            close = self._clock.popleft()
            end = bisect_left(records, close.offset, key=lambda record: record.offset)
            if end > start:
                await self._apply(records[start:end])
                start = end
            self._made.repeat_clock_close(close)
        await self._apply(records[start:])

    @property
    def _made(self) -> PartitionWindows:
        return self._windows if self._isolation is None else self._isolation.windows

    async def _apply(self, records: Sequence[InputRecord]) -> None:
        await asyncio.sleep(0)
        if self._isolation is not None:
            for _ in self._isolation.attempts(records, now_ms=self._now_ms()):
                await asyncio.sleep(0)
            self._keep_probes(self._isolation.take_applied())
            return
        try:
            for applied in self._pipeline.slices(self._windows, records, now_ms=self._now_ms()):
                self._keep_probes(applied)
                await asyncio.sleep(0)
        except Exception as error:
            raise CannotApply from error

    def restored(self) -> Restored:
        """Return the windows after the records so far; what they close from now on is new."""
        windows = self._made
        for close in self._clock:
            windows.repeat_clock_close(close)
        windows.rebuilding = False
        return Restored(windows, self._probes)

    def _keep_probes(self, applied: Applied) -> None:
        self._probes = newest_steps([*self._probes, *applied.probes], self._pipeline.error_steps)


def _ignore(commit: Commit) -> None:
    """Ignore a commit that is older than our own."""


class TopicRestore(Restore):
    """Windows of one partition, read again from the topic for as long as it takes."""

    def __init__(
        self,
        pipeline: Pipeline,
        rebuilder: Rebuilder,
        *,
        topic: str,
        partition: int,
        now_ms: Callable[[], int],
        own_commit: Callable[[], Commit | None] = lambda: None,
    ) -> None:
        """Prepare.

        Args:
            pipeline: applies the records.
            rebuilder: reads the records.
            topic: the input topic.
            partition: number of the input partition.
            now_ms: wall time, epoch milliseconds.
            own_commit: returns the newest commit that this worker has made for these windows, possibly in flight; None:
                the last one that the broker has counts.
        """
        self._pipeline, self._rebuilder = pipeline, rebuilder
        self._topic, self._partition, self._now_ms = topic, partition, now_ms
        self._own_commit = own_commit

    async def before(self, offset: int) -> Restored:
        """See Restore. Retries until the topic can be read."""
        pauses = REBUILD.pauses()
        isolate = False
        with metrics.rebuild_seconds.time():
            while True:
                rebuild = Rebuild(self._pipeline, self._now_ms, isolate=isolate)
                own = self._own_commit()
                if own is not None:
                    rebuild.recall(own)
                recall = rebuild.recall if own is None else _ignore
                try:
                    await self._rebuilder.rebuild(self._topic, self._partition, offset, rebuild.apply, recall)
                    return rebuild.restored()
                except CannotApply:  # these records failed the first time too, and became dead letters then
                    log.exception(
                        "%s-%d: the rebuild leaves out records that cannot be applied", self._topic, self._partition
                    )
                    isolate = True
                    continue
                except Exception:
                    metrics.rebuild_failures.inc()
                    pause_s = next(pauses)
                    log.exception(
                        "%s-%d: cannot rebuild the windows, retrying in %.1f s", self._topic, self._partition, pause_s
                    )
                await asyncio.sleep(pause_s)
