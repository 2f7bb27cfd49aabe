"""Reads ranges of a topic without a consumer group: nothing is committed and nothing changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from glaim_stream.core.errors import NoTopic, SettingsError, names_known, resembling
from glaim_stream.core.settings import Settings
from glaim_stream.kafka.connection import admin_options, consumer_options, poll_records
from glaim_stream.kafka.diagnosis import no_broker
from glaim_stream.kafka.unreadable import read_every_record

_FETCH_BYTES = 8 * 1024**2
_POLL_MS = 500
_STALLED_S = 60.0

Offsets = Mapping[int, int] | int | None  # offsets by partition, or one for all
Progress = Callable[[int, int], object]  # records done, records in all


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets `[begin, end)` of one partition; `oldest` is the first that retention has kept."""

    topic: str
    partition: int
    begin: int
    end: int
    oldest: int = 0

    def __len__(self) -> int:
        return max(0, self.end - self.begin)

    @property
    def tp(self) -> TopicPartition:
        """Topic and partition as the client names them."""
        return TopicPartition(self.topic, self.partition)


@asynccontextmanager
async def reader(settings: Settings) -> AsyncIterator[AIOKafkaConsumer]:
    """A started consumer without a group, stopped at the end.

    Raises:
        SettingsError: no broker answers.
    """
    read_every_record(settings.budget.unpacked_bytes)
    options = {
        "auto_offset_reset": "earliest",
        "max_partition_fetch_bytes": _FETCH_BYTES,
        "max_poll_records": poll_records(settings.kafka_extra),
    }
    consumer = AIOKafkaConsumer(**(options | consumer_options(settings)))
    try:
        await consumer.start()
    except KafkaError as error:
        await consumer.stop()
        raise await asyncio.to_thread(no_broker, settings, error) from error
    try:
        yield consumer
    finally:
        await consumer.stop()


async def partitions_of(settings: Settings, topic: str) -> list[int]:
    """Partition numbers of a topic, ascending; empty when there is no such topic."""
    admin = AIOKafkaAdminClient(**admin_options(settings))
    await admin.start()
    try:
        (found,) = await admin.describe_topics([topic])
    finally:
        await admin.close()
    return sorted(part["partition"] for part in found["partitions"]) if found["error_code"] == 0 else []


async def ranges_of(
    settings: Settings,
    consumer: AIOKafkaConsumer,
    topic: str,
    *,
    from_offset: Offsets = None,
    until_offset: Offsets = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    partitions: Sequence[int] = (),
) -> list[Range]:
    """The ranges that a topic now holds between offsets and times, one per partition.

    Args:
        settings: connection to Kafka.
        consumer: a consumer of `reader`.
        topic: name of the topic.
        from_offset: first offset, by partition or one for all.
        until_offset: offset after the last one, by partition or one for all.
        since_ms: start at the first record that Kafka stamped at or after this time, epoch ms.
        until_ms: end before the first record that Kafka stamped at or after this time.
        partitions: numbers of the partitions; all when empty.

    Raises:
        SettingsError: the topic or one of the partitions is not there.
    """
    existing = await partitions_of(settings, topic)
    if not existing:
        raise await no_topic(settings, topic)
    named = {*partitions, *(from_offset if isinstance(from_offset, Mapping) else ())}
    named |= set(until_offset if isinstance(until_offset, Mapping) else ())
    if not named <= set(existing):
        raise SettingsError(f"{topic} has the partitions {existing}, not {sorted(named - set(existing))}")
    tps = [TopicPartition(topic, number) for number in existing if not partitions or number in partitions]
    oldest, ends = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
    begins_at = {} if since_ms is None else await consumer.offsets_for_times(dict.fromkeys(tps, max(0, since_ms)))
    ends_at = {} if until_ms is None else await consumer.offsets_for_times(dict.fromkeys(tps, max(0, until_ms)))
    out = []
    for tp in tps:
        begin = max(oldest[tp], _offset(from_offset, tp.partition, 0))
        end = min(ends[tp], _offset(until_offset, tp.partition, ends[tp]))
        if since_ms is not None:
            begin = max(begin, begins_at[tp].offset if begins_at.get(tp) else ends[tp])
        if until_ms is not None and ends_at.get(tp):
            end = min(end, ends_at[tp].offset)
        out.append(Range(topic, tp.partition, begin, max(begin, end), oldest[tp]))
    return out


async def read_range(consumer: AIOKafkaConsumer, part: Range, *, most: int | None = None) -> AsyncIterator[list[Any]]:
    """Yield the records of a range in order, at most `most` at a time.

    Raises:
        SettingsError: no record has come for a minute, though the range has not ended.
    """
    if not len(part):
        return
    consumer.assign([part.tp])
    consumer.seek(part.tp, part.begin)
    last_s = time.monotonic()
    while (position := await consumer.position(part.tp)) < part.end:
        records = (await consumer.getmany(part.tp, timeout_ms=_POLL_MS, max_records=most)).get(part.tp, [])
        wanted = [record for record in records if record.offset < part.end]
        if wanted:
            last_s = time.monotonic()
            yield wanted
        elif not records and time.monotonic() - last_s > _STALLED_S:
            raise SettingsError(f"{part.topic}-{part.partition}: no records came from offset {position} to {part.end}")


async def no_topic(settings: Settings, topic: str) -> NoTopic:
    """The error for a topic that is not there, with the names of those that this user may see."""
    admin = AIOKafkaAdminClient(**admin_options(settings))
    await admin.start()
    try:
        known = [name for name in await admin.list_topics() if not name.startswith("__")]
    finally:
        await admin.close()
    message = f"there is no topic {topic!r} at {settings.kafka} yet; {names_known(topic, known)}"
    return NoTopic(message, resembling(topic, known))


def _offset(offsets: Offsets, partition: int, default: int) -> int:
    if isinstance(offsets, int):
        return offsets
    return default if offsets is None else offsets.get(partition, default)
