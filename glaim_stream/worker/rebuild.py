"""Reads the input topic again when a partition is assigned: the windows are a function of the topic.

Every commit carries the lowest offset that the windows still need (glaim_stream.kafka.offsets). So a rebuild is exact,
and as short as the windows are, also while years of history are replayed at full speed.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from glaim_stream.core import metrics
from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import (
    commit_from_metadata,
    consumer_options,
    read_commit,
    read_every_record,
    rebuild_from_metadata,
)
from glaim_stream.windows import history_ms
from glaim_stream.worker.restore import Apply, Rebuilder, Recall

log = logging.getLogger(__name__)

_POLL_MS = 1000


class KafkaRebuilder(Rebuilder):
    """A reader of the part of the input topic that the windows need."""

    def __init__(self, settings: Settings, catalogue: Catalogue) -> None:
        self._settings = settings
        self._span_ms = history_ms(catalogue, scored=settings.remembers, quality=settings.quality)

    async def rebuild(self, topic: str, partition: int, next_offset: int, apply: Apply, recall: Recall) -> None:
        """Pass to `apply` the records below `next_offset`, from the first one that the last commit needs.

        Without a commit, start with the oldest record. Before that, pass the commit to `recall`.
        """
        if next_offset == 0:
            return
        tp = TopicPartition(topic, partition)
        start_s = time.perf_counter()
        commit = await read_commit(self._settings, tp)
        if commit is not None:
            known = commit_from_metadata(commit.offset, commit.metadata)
            # Output published beyond the rebuilt records is not repeated.
            recall(known if commit.offset <= next_offset else replace(known, clock=()))
        read_every_record(self._settings.budget.unpacked_bytes)
        consumer = AIOKafkaConsumer(**consumer_options(self._settings), auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([tp])
            first = await self._first_offset(consumer, tp, next_offset, commit)
            count = await _read(consumer, tp, first, next_offset, apply)
        finally:
            await consumer.stop()
        metrics.rebuilds.inc()
        metrics.rebuilt_records.inc(count)
        log.info(
            "%s-%d: windows rebuilt from %d records, offsets %d to %d, in %.2f s",
            topic, partition, count, first, next_offset, time.perf_counter() - start_s,
        )  # fmt: skip

    async def _first_offset(
        self, consumer: AIOKafkaConsumer, tp: TopicPartition, next_offset: int, commit: OffsetAndMetadata | None
    ) -> int:
        """Return the offset from which the windows must be read."""
        oldest: int = (await consumer.beginning_offsets([tp]))[tp]
        if commit is None:  # nothing is answered yet: the group began with the oldest record
            return oldest
        needed = rebuild_from_metadata(commit.offset, commit.metadata)
        if needed is None:
            needed = await self._by_time(consumer, tp, next_offset)
        if needed < oldest:
            metrics.retention_shortfalls.inc()
            log.error(
                "%s-%d: the windows need offset %d, but retention has kept only %d and later: the first windows have "
                "less history than before. Give the topic a retention longer than what they need, %d s of event time.",
                *tp, needed, oldest, self._span_ms // 1000,
            )  # fmt: skip
        return max(needed, oldest)

    async def _by_time(self, consumer: AIOKafkaConsumer, tp: TopicPartition, next_offset: int) -> int:
        """Return the first offset within the time that the windows span; used for a commit by another tool."""
        log.warning("%s-%d: the last commit does not say what the windows need; going back by the records' time", *tp)
        newest_ms = await _record_time_ms(consumer, tp, next_offset - 1)
        if newest_ms is None:
            return next_offset
        found = (await consumer.offsets_for_times({tp: max(0, newest_ms - self._span_ms)})).get(tp)
        return next_offset if found is None else min(found.offset, next_offset)


async def _record_time_ms(consumer: AIOKafkaConsumer, tp: TopicPartition, offset: int) -> int | None:
    """Return the timestamp of the record at `offset` or of the next one that is left; None when there is none."""
    consumer.seek(tp, offset)
    while True:
        records = (await consumer.getmany(tp, timeout_ms=_POLL_MS, max_records=1)).get(tp)
        if records:
            timestamp: int = records[0].timestamp
            return timestamp
        # An empty poll alone proves nothing: the broker may only be slow.
        if await consumer.position(tp) >= (await consumer.end_offsets([tp]))[tp]:
            return None


async def _read(
    consumer: AIOKafkaConsumer,
    tp: TopicPartition,
    first: int,
    next_offset: int,
    apply: Apply,
) -> int:
    """Pass the records of `[first, next_offset)` to `apply` and return their number."""
    consumer.seek(tp, first)
    count = 0
    while (position := await consumer.position(tp)) < next_offset:
        found = await consumer.getmany(tp, timeout_ms=_POLL_MS)
        if not found and position >= (await consumer.end_offsets([tp]))[tp]:
            break  # the log was cut or made anew below the commit
        for records in found.values():
            wanted = [record for record in records if record.offset < next_offset]
            if wanted:
                await apply(wanted)
                count += len(wanted)
    return count
