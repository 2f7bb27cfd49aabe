"""Follows a topic from its beginning or from its newest records on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from aiokafka import AIOKafkaConsumer, TopicPartition

from glaim_stream.core.settings import Settings
from glaim_stream.kafka.ranges import partitions_of, reader

_AT_A_TIME = 500  # records of a poll
_POLL_MS = 1000
_LOOK_S = 60.0  # pause between two looks for added partitions

Take = Callable[[int, bytes | None, bytes | None], None]  # partition, key and value of a record


async def follow(settings: Settings, topic: str, take: Take, *, newest: int | None = None) -> None:
    """Pass partition, key and value of every record of a topic to `take`, as long as the topic can be read.

    Args:
        settings: names of the brokers.
        topic: name of the topic.
        take: called for each record, in the order of its partition.
        newest: number of offsets before the end of each partition at which to begin; None: the beginning.

    Raises:
        SettingsError: no broker answers.
    """
    async with reader(settings) as consumer:
        known: set[int] = set()
        looked_s = -_LOOK_S
        while True:
            if time.monotonic() - looked_s >= _LOOK_S:
                looked_s = time.monotonic()
                found = set(await partitions_of(settings, topic))
                if found - known:
                    at = {number: await consumer.position(TopicPartition(topic, number)) for number in known}
                    consumer.assign([TopicPartition(topic, number) for number in sorted(found)])
                    at |= await _begin(consumer, topic, found - known, newest)
                    for number, offset in at.items():
                        consumer.seek(TopicPartition(topic, number), offset)
                    known = found
            for tp, records in (await consumer.getmany(timeout_ms=_POLL_MS, max_records=_AT_A_TIME)).items():
                for record in records:
                    take(tp.partition, record.key, record.value)


async def _begin(consumer: AIOKafkaConsumer, topic: str, numbers: Iterable[int], newest: int | None) -> dict[int, int]:
    """The offsets from which new partitions are read."""
    partitions = [TopicPartition(topic, number) for number in numbers]
    first = await consumer.beginning_offsets(partitions)
    if newest is None:
        return {tp.partition: offset for tp, offset in first.items()}
    ends = await consumer.end_offsets(partitions)
    return {tp.partition: max(first[tp], ends[tp] - newest) for tp in partitions}
