"""Reads the input again when a partition comes: the windows are a function of the topic, and the commit says of what.

Every commit carries the lowest offset that the windows still need (glaim_stream.kafka.offsets). The rebuild is exact,
and as short as the windows are, also when years of history are replayed at speed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from glaim_stream import metrics
from glaim_stream.catalogue import Catalogue
from glaim_stream.decode.dead_letters import InputRecord
from glaim_stream.kafka.connection import kafka_options
from glaim_stream.kafka.offsets import rebuild_from_metadata
from glaim_stream.settings import Settings
from glaim_stream.windows.history import history_ms

log = logging.getLogger(__name__)

_POLL_MS = 1000


class KafkaRebuilder:
    """Rebuilds from the input topic itself."""

    def __init__(self, settings: Settings, catalogue: Catalogue) -> None:
        self._settings = settings
        self._span_ms = history_ms(catalogue, scored=settings.scored)

    async def rebuild(
        self, topic: str, partition: int, next_offset: int, apply: Callable[[Sequence[InputRecord]], Awaitable[None]]
    ) -> None:
        """Give `apply` every record from what the last commit needs up to, and without, `next_offset`.

        Without a commit, from the oldest record that is there.
        """
        tp = TopicPartition(topic, partition)
        start_s = time.perf_counter()
        if next_offset == 0:
            return
        commit = await self._last_commit(tp)
        consumer = AIOKafkaConsumer(
            **kafka_options(self._settings), enable_auto_commit=False, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            consumer.assign([tp])
            if commit is None:  # nothing is answered yet: the group began with the oldest record
                first = (await consumer.beginning_offsets([tp]))[tp]
            else:
                first = rebuild_from_metadata(commit)
                if first is None:
                    first = await self._by_time(consumer, tp, next_offset)
                first = await self._retained(consumer, tp, first)
            read = await _read(consumer, tp, first, next_offset, apply)
        finally:
            await consumer.stop()
        metrics.rebuilds.inc()
        metrics.rebuilt_records.inc(read)
        log.info(
            "%s-%d: windows rebuilt from %d records, offsets %d to %d, in %.2f s",
            topic, partition, read, first, next_offset, time.perf_counter() - start_s,
        )  # fmt: skip

    async def _last_commit(self, tp: TopicPartition) -> str | None:
        """Metadata of the group's commit for the partition, None when it never committed there."""
        admin = AIOKafkaAdminClient(**kafka_options(self._settings))
        await admin.start()
        try:
            commits = await admin.list_consumer_group_offsets(self._settings.consumer_group, partitions=[tp])
        finally:
            await admin.close()
        commit = commits.get(tp)
        return None if commit is None or commit.offset < 0 else (commit.metadata or "")

    async def _by_time(self, consumer: AIOKafkaConsumer, tp: TopicPartition, next_offset: int) -> int:
        """For a commit that another tool made: the span of record time that the windows need, before the position."""
        consumer.seek(tp, max(0, next_offset - 1))
        found = await consumer.getmany(tp, timeout_ms=_POLL_MS, max_records=1)
        records = found.get(tp)
        if not records:
            return next_offset
        at = await consumer.offsets_for_times({tp: max(0, records[0].timestamp - self._span_ms)})
        log.warning("%s-%d: the last commit does not say what the windows need; going back by time", *tp)
        return at[tp].offset if at.get(tp) is not None else next_offset

    async def _retained(self, consumer: AIOKafkaConsumer, tp: TopicPartition, first: int) -> int:
        """`first`, or the oldest offset that is still there, and then it is said."""
        oldest: int = (await consumer.beginning_offsets([tp]))[tp]
        if oldest <= first:
            return first
        metrics.retention_shortfalls.inc()
        log.error(
            "%s-%d: the windows need offset %d, retention has kept only %d on: the first windows start with less "
            "history than they had. Give the topic a retention above what they need, %d s of event time.",
            *tp, first, oldest, self._span_ms // 1000,
        )  # fmt: skip
        return oldest


async def _read(
    consumer: AIOKafkaConsumer,
    tp: TopicPartition,
    first: int,
    next_offset: int,
    apply: Callable[[Sequence[InputRecord]], Awaitable[None]],
) -> int:
    """Records of `[first, next_offset)` to `apply`; returns how many."""
    consumer.seek(tp, first)
    count = 0
    while await consumer.position(tp) < next_offset:
        for records in (await consumer.getmany(tp, timeout_ms=_POLL_MS)).values():
            wanted = [record for record in records if record.offset < next_offset]
            if wanted:
                await apply(wanted)
                count += len(wanted)
    return count
