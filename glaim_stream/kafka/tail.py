"""Reads the output topic as it grows: filtered rows one message after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from aiokafka import AIOKafkaConsumer, TopicPartition

from glaim_stream.errors import RecordError, SettingsError
from glaim_stream.kafka.ranges import partitions_of, reader
from glaim_stream.records import read_rows, without_dictionaries
from glaim_stream.settings import Settings

_POLL_MS = 200


@dataclass(frozen=True, slots=True)
class Filter:
    """A selection of rows; an empty sequence selects all."""

    groups: Sequence[str] = ()
    sensors: Sequence[str] = ()
    only_imputed: bool = False

    def apply(self, table: pa.Table) -> pa.Table:
        """The selected rows of a table in PLAIN_SCHEMA."""
        for name, wanted in (("group", self.groups), ("sensor", self.sensors)):
            if wanted:
                table = table.filter(pc.is_in(table[name], pa.array(list(wanted), pa.string())))
        return table.filter(pc.invert(table["observed"])) if self.only_imputed else table


def follow(
    settings: Settings,
    chosen: Filter | None = None,
    *,
    from_beginning: bool = False,
    limit: int | None = None,
    timeout_s: float | None = None,
    on_foreign: Callable[[str], object] = lambda reason: None,
) -> Generator[pa.Table]:
    """Yield the rows of the output topic as they come, one table in PLAIN_SCHEMA per message.

    Args:
        settings: how to reach Kafka, and the output topic.
        chosen: which rows.
        from_beginning: start with the oldest rows, else with the next ones.
        limit: end after this many rows.
        timeout_s: end when no message came for this long.
        on_foreign: called with a description of each message that is not in the schema.

    Raises:
        SettingsError: the broker or the topic is not there.
    """
    chosen = chosen or Filter()
    remaining = limit
    with asyncio.Runner() as runner:
        reading = runner.run(_reader(settings, from_beginning))
        try:
            last_s = time.monotonic()
            while timeout_s is None or time.monotonic() - last_s < timeout_s:
                for record in runner.run(_poll(reading)):
                    last_s = time.monotonic()
                    try:
                        table = chosen.apply(without_dictionaries(read_rows(record.value or b"")))
                    except RecordError as error:
                        on_foreign(f"{record.topic}-{record.partition} offset {record.offset}: {error}")
                        continue
                    if remaining is not None:
                        table = table.slice(0, remaining)
                        remaining -= table.num_rows
                    if table.num_rows:
                        yield table
                    if remaining == 0:
                        return
        finally:
            runner.run(reading.stack.aclose())


@dataclass(frozen=True, slots=True)
class _Reading:
    consumer: AIOKafkaConsumer
    stack: AsyncExitStack  # stops the consumer


async def _poll(reading: _Reading) -> list[Any]:
    polled = await reading.consumer.getmany(timeout_ms=_POLL_MS)
    return [record for records in polled.values() for record in records]


async def _reader(settings: Settings, from_beginning: bool) -> _Reading:
    topic = settings.output_topic
    async with AsyncExitStack() as stack:
        consumer = await stack.enter_async_context(reader(settings))
        partitions = [TopicPartition(topic, number) for number in await partitions_of(settings, topic)]
        if not partitions:
            raise SettingsError(f"expected the topic {topic} at {settings.kafka}, found none of that name")
        consumer.assign(partitions)
        offsets = consumer.beginning_offsets if from_beginning else consumer.end_offsets
        for partition, offset in (await offsets(partitions)).items():
            consumer.seek(partition, offset)  # fixes the end now and not at the first poll
        return _Reading(consumer, stack.pop_all())
