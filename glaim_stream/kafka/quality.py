"""What the quality topic holds."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable

from aiokafka import TopicPartition

from glaim_stream.kafka.ranges import partitions_of, ranges_of, read_range, reader
from glaim_stream.settings import Settings

_AT_A_TIME = 500  # records
_POLL_MS = 1000
_LOOK_S = 60.0  # for partitions that were added


async def quality_records(settings: Settings, partition: int) -> AsyncIterator[tuple[bytes, bytes | None]]:
    """Yield key and value of the records of a partition, oldest first; nothing where there is no such partition.

    Raises:
        SettingsError: no broker answers, or its records do not come.
    """
    topic = settings.quality_topic
    if partition not in await partitions_of(settings, topic):
        return
    async with reader(settings) as consumer:
        (part,) = await ranges_of(settings, consumer, topic, partitions=[partition])
        async for records in read_range(consumer, part, most=_AT_A_TIME):
            for record in records:
                if record.key is not None:
                    yield record.key, record.value


async def follow_quality(settings: Settings, take: Callable[[int, bytes | None, bytes | None], None]) -> None:
    """Pass partition, key and value of every record of the topic to `take`, as long as the topic can be read.

    Raises:
        SettingsError: no broker answers.
    """
    async with reader(settings) as consumer:
        known: set[int] = set()
        looked_s = -_LOOK_S
        while True:
            if time.monotonic() - looked_s >= _LOOK_S:
                looked_s = time.monotonic()
                found = set(await partitions_of(settings, settings.quality_topic))
                if found - known:
                    ends = {number: await consumer.position(_tp(settings, number)) for number in known}
                    consumer.assign([_tp(settings, number) for number in sorted(found)])
                    for number in found:
                        consumer.seek(_tp(settings, number), ends.get(number, 0))
                    await consumer.seek_to_beginning(*(_tp(settings, number) for number in found - known))
                    known = found
            for tp, records in (await consumer.getmany(timeout_ms=_POLL_MS, max_records=_AT_A_TIME)).items():
                for record in records:
                    take(tp.partition, record.key, record.value)


def _tp(settings: Settings, number: int) -> TopicPartition:
    return TopicPartition(settings.quality_topic, number)
