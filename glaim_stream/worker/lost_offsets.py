"""Finds offsets of the input that vanished before they were answered: a metric, a log line, and an event.

The driver goes on with the oldest record when its offset is gone. Each batch that does not begin where it should is
therefore compared with the start of the log, and so are commits of partitions that deliver nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition

from glaim_stream.core import metrics
from glaim_stream.core.errors import SendError
from glaim_stream.core.retry import LOST_OFFSETS
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import Loss, Send, consumer_options, lost_range
from glaim_stream.output import DOCUMENT_TYPE

log = logging.getLogger(__name__)

INTERVAL_S = 5.0


@dataclass(frozen=True, slots=True)
class Gap:
    """A batch of the input began at `found` and not at `expected`."""

    partition: int
    expected: int
    found: int


class Gaps:
    """Finds the batches that begin elsewhere than the one before ended, or than the commit of an assigned partition."""

    def __init__(self) -> None:
        self.found: asyncio.Queue[Gap] = asyncio.Queue()
        self._delivered_to: dict[int, int] = {}

    def deliver(self, partition: int, first_offset: int, next_offset: int, committed: int | None) -> None:
        """Compare a batch with offsets `[first_offset, next_offset)`; it may be one that was delivered before.

        Args:
            partition: number of the input partition.
            first_offset: first offset of the batch.
            next_offset: offset after the batch.
            committed: commit of the group when the partition was assigned; None without one.
        """
        delivered_to = self._delivered_to.get(partition)
        self._delivered_to[partition] = next_offset
        expected = committed if delivered_to is None else min(delivered_to, first_offset)
        if expected is not None and expected != first_offset:
            self.found.put_nowait(Gap(partition, expected, first_offset))

    def forget(self, partition: int) -> None:
        """Forget a partition that was revoked."""
        self._delivered_to.pop(partition, None)


class LostOffsets:
    """Judges gaps, and reports each lost offset once."""

    def __init__(self, settings: Settings, send: Send) -> None:
        self._settings, self._send = settings, send
        self._removed_until: dict[int, int] = {}  # end of the reported range by partition
        self._truncated: set[tuple[int, int]] = set()  # partitions and commits that were reported

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
        gap: Gap | None = None
        while True:
            # Without a topic it joins no group and fetches nothing.
            consumer = AIOKafkaConsumer(**consumer_options(self._settings), group_id=self._settings.consumer_group)
            try:
                await consumer.start()
                while True:
                    gap = gap or await _next(gaps.found, interval_s)
                    if gap is not None:
                        await self._judge(consumer, gap.partition, gap.expected, gap.found)
                        gap = None
                    else:
                        await self._judge_idle(consumer, answered())
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
                await self._judge(consumer, partition, committed, None)

    async def _judge(self, consumer: AIOKafkaConsumer, partition: int, expected: int, found: int | None) -> None:
        tp = TopicPartition(self._settings.input_topic, partition)
        start, end = (await consumer.beginning_offsets([tp]))[tp], (await consumer.end_offsets([tp]))[tp]
        lost = lost_range(expected, found, start, end)
        if lost is None:
            return
        first, until, reason = lost
        if reason == "removed":
            first = max(first, self._removed_until.get(partition, 0))
        if first >= until or (reason == "truncated" and (partition, expected) in self._truncated):
            return
        loss = Loss(tp.topic, partition, first, until, reason)
        await self._announce(loss)
        if reason == "removed":
            self._removed_until[partition] = until
            log.error(
                "%s-%d: the offsets %d to %d were removed before they were read: their readings are lost. Give the "
                "topic a retention longer than workers may be away.", *tp, first, until - 1,
            )  # fmt: skip
        else:
            self._truncated.add((partition, expected))
            log.error(
                "%s-%d: the log ends below offset %d, which was committed: it was truncated or made anew, and is read "
                "from its oldest record", *tp, expected,
            )  # fmt: skip
        metrics.lost_offsets.inc(len(loss))

    async def _announce(self, loss: Loss) -> None:
        headers = [("content-type", DOCUMENT_TYPE)]
        try:
            await (await self._send(self._settings.outage_topic, loss.key, loss.value, loss.partition, headers))
        except SendError as error:
            raise OSError(f"{self._settings.outage_topic} did not acknowledge {loss}") from error


async def _next(gaps: asyncio.Queue[Gap], within_s: float) -> Gap | None:
    try:
        return await asyncio.wait_for(gaps.get(), within_s)
    except TimeoutError:
        return None
