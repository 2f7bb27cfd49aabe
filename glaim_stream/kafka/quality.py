"""Reads the quality topic."""

from __future__ import annotations

from collections.abc import AsyncIterator

from glaim_stream.core.settings import Settings
from glaim_stream.kafka.ranges import partitions_of, ranges_of, read_range, reader

_AT_A_TIME = 500  # records of a poll


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
