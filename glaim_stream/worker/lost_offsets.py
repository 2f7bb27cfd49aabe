"""Finds offsets of the input that vanished before they were answered: a metric, a log line, and an event.

The driver goes on with the oldest record when its offset is gone. Each batch that does not begin where it should is
therefore compared with the start of the log, and so are commits of partitions that deliver nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from aiokafka import AIOKafkaConsumer, TopicPartition

from glaim_stream.core import metrics
from glaim_stream.core.errors import SendError
from glaim_stream.core.retry import LOST_OFFSETS
from glaim_stream.core.settings import Settings
from glaim_stream.core.times import steady_s
from glaim_stream.kafka import Loss, Send, consumer_options, lost_range, topic_identity
from glaim_stream.output import DOCUMENT_TYPE

log = logging.getLogger(__name__)

INTERVAL_S = 5.0
TOPIC_LOOK_S = 20.0  # between looks at the topic's id, which take a connection


@dataclass(frozen=True, slots=True)
class Gap:
    """After the record before `expected` the one at `found` was delivered."""

    partition: int
    expected: int
    found: int


class Gaps:
    """Finds holes in the offsets that are delivered, within batches, between them, and after an assignment's commit.

    One poll may join the records before and after a range that retention removed.
    """

    def __init__(self) -> None:
        self.found: asyncio.Queue[Gap] = asyncio.Queue()
        self._delivered_to: dict[int, int] = {}
        self._furthest: dict[int, int] = {}  # as `_delivered_to`, also of partitions that were revoked
        self.set_back: set[int] = set()  # partitions that were delivered again from an earlier offset

    def deliver(self, partition: int, offsets: Sequence[int], committed: int | None) -> None:
        """Compare the ascending offsets of a batch with what was delivered; it may be one that was delivered before.

        Args:
            partition: number of the input partition.
            offsets: offsets of the batch's records, at least one.
            committed: commit of the group when the partition was assigned; None without one.
        """
        first, last = offsets[0], offsets[-1]
        delivered_to = self._delivered_to.get(partition)
        self._delivered_to[partition] = last + 1
        expected = committed if delivered_to is None else min(delivered_to, first)
        if first < self._furthest.get(partition, 0):
            self.set_back.add(partition)
        self._furthest[partition] = last + 1
        if expected is not None and expected != first:
            self.found.put_nowait(Gap(partition, expected, first))
        if last - first + 1 != len(offsets):
            for before, after in pairwise(offsets):
                if after - before > 1:
                    self.found.put_nowait(Gap(partition, before + 1, after))

    def forget(self, partition: int) -> None:
        """Forget a partition that was revoked."""
        self._delivered_to.pop(partition, None)


class LostOffsets:
    """Judges gaps, and reports each lost offset once."""

    def __init__(
        self, settings: Settings, send: Send, on_topic: Callable[[str], object] = lambda identity: None
    ) -> None:
        """Prepare.

        Args:
            settings: the worker's settings.
            send: sends a message.
            on_topic: receives the identity of the input topic at each look at it.
        """
        self._settings, self._send, self._on_topic = settings, send, on_topic
        self._removed_until: dict[int, int] = {}  # end of the reported range by partition
        self._truncated: set[tuple[int, int]] = set()  # partitions and commits that were reported
        self._topic_id: str | None = None
        self._passed: dict[int, int] = {}  # offsets by partition that were answered at the last look at the topic's id

    async def watch(
        self,
        gaps: Gaps,
        answered: Callable[[], Mapping[int, int | None]],
        *,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """Judge gaps as they come, and every few seconds the commits of partitions without a delivery, until cancelled.

        Args:
            gaps: gaps that the consumer found.
            answered: returns, for every assigned partition, the offset before which everything is answered, or None
                while nothing of it was delivered.
            interval_s: seconds between two looks at the commits.
        """
        pauses = LOST_OFFSETS.pauses()
        waiting: list[Gap] = []
        look_s = 0.0
        while True:
            # Without a topic it joins no group and fetches nothing.
            consumer = AIOKafkaConsumer(**consumer_options(self._settings), group_id=self._settings.consumer_group)
            try:
                await consumer.start()
                while True:
                    waiting = waiting or await _next(gaps.found, interval_s)
                    for partition in {gap.partition for gap in waiting}:
                        holes = [(gap.expected, gap.found) for gap in waiting if gap.partition == partition]
                        await self._judge(consumer, partition, holes)
                    if not waiting:
                        await self._judge_idle(consumer, answered())
                        if steady_s() >= look_s:
                            look_s = steady_s() + TOPIC_LOOK_S
                            await self._judge_topic(consumer, gaps, answered())
                    waiting = []
                    pauses = LOST_OFFSETS.pauses()
            except Exception as error:  # the gap stays, and is judged when the broker is back
                log.warning("cannot tell whether input was lost, trying again: %r", error)
            finally:
                await consumer.stop()
            await asyncio.sleep(next(pauses))

    async def _judge_idle(self, consumer: AIOKafkaConsumer, answered: Mapping[int, int | None]) -> None:
        for partition in [partition for partition, offset in answered.items() if offset is None]:
            committed = await consumer.committed(TopicPartition(self._settings.input_topic, partition))
            if committed:
                await self._judge(consumer, partition, [(committed, None)])

    async def _judge_topic(self, consumer: AIOKafkaConsumer, gaps: Gaps, answered: Mapping[int, int | None]) -> None:
        """Report what a worker skips in a topic that was deleted and made anew, because the worker goes on above it.

        Where the new topic ends below its position, the client begins with the oldest record.
        """
        found = await asyncio.to_thread(topic_identity, self._settings, self._settings.input_topic)
        if found is not None and self._topic_id not in (None, found):
            log.error("%s was deleted and made anew while this worker read it", self._settings.input_topic)
            for partition in sorted(self._passed.keys() & answered.keys() - gaps.set_back):
                tp, passed = TopicPartition(self._settings.input_topic, partition), self._passed[partition]
                if passed <= (await consumer.end_offsets([tp]))[tp]:
                    await self._report(Loss(tp.topic, partition, 0, passed, "replaced"), passed)
        gaps.set_back.clear()
        self._topic_id = found or self._topic_id
        self._on_topic(found or "")
        self._passed = {partition: offset for partition, offset in answered.items() if offset}

    async def _judge(self, consumer: AIOKafkaConsumer, partition: int, holes: Sequence[tuple[int, int | None]]) -> None:
        """Judge holes, as the offset that was expected and the one that was found; None where none was."""
        tp = TopicPartition(self._settings.input_topic, partition)
        start, end = (await consumer.beginning_offsets([tp]))[tp], (await consumer.end_offsets([tp]))[tp]
        for expected, found in holes:
            lost = lost_range(expected, found, start, end)
            if lost is not None:
                await self._report(Loss(tp.topic, tp.partition, *lost), expected)

    async def _report(self, loss: Loss, expected: int) -> None:
        """Report what was not reported yet of a loss: an event, a count and a line."""
        topic, partition = loss.topic, loss.partition
        if loss.reason == "removed":
            loss = replace(loss, first=max(loss.first, self._removed_until.get(partition, 0)))
        if not len(loss) or (loss.reason == "truncated" and (partition, expected) in self._truncated):
            return
        await self._announce(loss)
        if loss.reason == "removed":
            self._removed_until[partition] = loss.until
            log.error(
                "%s-%d: the offsets %d to %d were removed before they were read: their readings are lost. Give the "
                "topic a retention longer than workers may be away.", topic, partition, loss.first, loss.until - 1,
            )  # fmt: skip
        elif loss.reason == "replaced":
            log.error(
                "%s-%d: what the new topic holds below offset %d is not read. Stop the workers, set their group back "
                "to the earliest offset, and start them", topic, partition, loss.until,
            )  # fmt: skip
        else:
            self._truncated.add((partition, expected))
            log.error(
                "%s-%d: the log ends below offset %d, which was committed: it was truncated or made anew, and is read "
                "from its oldest record", topic, partition, expected,
            )  # fmt: skip
        metrics.lost_offsets.inc(len(loss))

    async def _announce(self, loss: Loss) -> None:
        headers = [("content-type", DOCUMENT_TYPE)]
        try:
            await (await self._send(self._settings.outage_topic, loss.key, loss.value, loss.partition, headers))
        except SendError as error:
            raise OSError(f"{self._settings.outage_topic} did not acknowledge {loss}") from error


async def _next(gaps: asyncio.Queue[Gap], within_s: float) -> list[Gap]:
    """The gaps that wait, or the next one; empty after `within_s` seconds without one."""
    try:
        found = [await asyncio.wait_for(gaps.get(), within_s)]
    except TimeoutError:
        return []
    return found + [gaps.get_nowait() for _ in range(gaps.qsize())]
