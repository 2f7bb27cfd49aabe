"""Reads the output topic as it grows: filtered rows one message after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from aiokafka import AIOKafkaConsumer

from glaim_stream.core.errors import RecordError, SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.kafka.ranges import Offsets, no_topic, partitions_of, ranges_of, read_range, reader
from glaim_stream.output import read_rows, without_dictionaries

_POLL_MS = 200
_TOPIC_PAUSE_S = 0.5
_NEWEST_MESSAGES = 500  # messages of all partitions: enough to know the names of a topic, at up to some megabytes


@dataclass(frozen=True, slots=True)
class Filter:
    """A selection of rows by names or shell patterns (`pump-*`); an empty sequence selects all."""

    groups: Sequence[str] = ()
    sensors: Sequence[str] = ()
    only_imputed: bool = False

    def apply(self, table: pa.Table) -> pa.Table:
        """The selected rows of a table in PLAIN_SCHEMA."""
        for column, wanted in (("group", self.groups), ("sensor", self.sensors)):
            if wanted:
                names = [name for name in pc.unique(table[column]).to_pylist() if fits(name, wanted)]
                table = table.filter(pc.is_in(table[column], pa.array(names, pa.string())))
        return table.filter(pc.invert(table["observed"])) if self.only_imputed else table


def fits(name: str, wanted: Sequence[str]) -> bool:
    """Whether a name is one of the wanted ones, or fits a pattern among them."""
    return any(name == each or fnmatchcase(name, each) for each in wanted)


@dataclass(frozen=True, slots=True)
class Start:
    """The place where to start: the end of the topic, unless a field says otherwise."""

    from_beginning: bool = False
    since_ms: int | None = None  # start at the first message that Kafka stamped at or after this time
    from_offset: Offsets = None
    partitions: Sequence[int] = ()

    @property
    def at_end(self) -> bool:
        """Whether only messages that come from now on are wanted."""
        return not self.from_beginning and self.since_ms is None and self.from_offset is None


@dataclass(slots=True)
class NewestNames:
    """Groups and sensors that the newest messages name."""

    groups: set[str] = field(default_factory=set)
    sensors: set[str] = field(default_factory=set)
    messages: int = 0
    whole: bool = True  # True if these are all messages of the topic


def await_output(settings: Settings, patience_s: float, say: Callable[[str], object]) -> None:
    """Wait for the output topic, which a worker creates when it starts.

    Args:
        settings: connection to Kafka, and the output topic.
        patience_s: longest wait.
        say: called once with the reason for the wait, if there is one.

    Raises:
        SettingsError: no broker answers, the topic has not come, or another one has nearly its name.
    """
    asyncio.run(_await_output(settings, patience_s, say))


async def _await_output(settings: Settings, patience_s: float, say: Callable[[str], object]) -> None:
    topic, end_s, waiting = settings.output_topic, time.monotonic() + patience_s, False
    async with reader(settings):
        while not await partitions_of(settings, topic):
            problem = await no_topic(settings, topic)
            if time.monotonic() >= end_s or problem.near:
                raise problem
            if not waiting:
                say(f"there is no topic {topic!r} yet; waiting {patience_s:g} s for a worker to create it")
            waiting = True
            await asyncio.sleep(_TOPIC_PAUSE_S)


def names_there(settings: Settings, partitions: Sequence[int] = ()) -> NewestNames:
    """Read the names in the newest messages of the output topic.

    Raises:
        SettingsError: the broker, the topic or a partition is not there.
    """
    return asyncio.run(_names_there(settings, partitions))


async def _names_there(settings: Settings, partitions: Sequence[int]) -> NewestNames:
    names = NewestNames()
    async with reader(settings) as consumer:
        ranges = await ranges_of(settings, consumer, settings.output_topic, partitions=partitions)
        each = max(1, _NEWEST_MESSAGES // len(ranges))
        for part in ranges:
            newest = replace(part, begin=max(part.begin, part.end - each))
            names.whole &= newest.begin == part.begin
            async for records in read_range(consumer, newest):
                for record in records:
                    names.messages += 1
                    with suppress(RecordError):
                        table = without_dictionaries(read_rows(record.value or b""))
                        names.groups.update(pc.unique(table["group"]).to_pylist())
                        names.sensors.update(pc.unique(table["sensor"]).to_pylist())
    return names


def follow_rows(
    settings: Settings,
    chosen: Filter | None = None,
    *,
    start: Start | None = None,
    limit: int | None = None,
    timeout_s: float | None = None,
    on_foreign: Callable[[str], object] = lambda reason: None,
) -> Generator[pa.Table]:
    """Yield the rows of the output topic as they come, one table in PLAIN_SCHEMA per message.

    Args:
        settings: connection to Kafka, and the output topic.
        chosen: selection of rows; all by default.
        start: place to start; the next rows by default.
        limit: end after this many rows.
        timeout_s: end when no message came for this long.
        on_foreign: called with a description of each message that is not in the schema.

    Raises:
        SettingsError: the broker, the topic, a partition or an offset is not there.
    """
    chosen = chosen or Filter()
    remaining = limit
    with asyncio.Runner() as runner:
        reading = runner.run(_reader(settings, start or Start()))
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


async def _reader(settings: Settings, start: Start) -> _Reading:
    topic = settings.output_topic
    async with AsyncExitStack() as stack:
        consumer = await stack.enter_async_context(reader(settings))
        ranges = await ranges_of(
            settings, consumer, topic, from_offset=start.from_offset, since_ms=start.since_ms,
            partitions=start.partitions,
        )  # fmt: skip
        consumer.assign([part.tp for part in ranges])
        ends = await consumer.end_offsets([part.tp for part in ranges])
        for part in ranges:
            if part.begin > ends[part.tp]:  # the client would start again at the oldest message
                raise SettingsError(
                    f"expected an offset of {topic}-{part.partition} up to {ends[part.tp]}, found {part.begin}"
                )
            # Fixes the end now and not at the first poll.
            consumer.seek(part.tp, ends[part.tp] if start.at_end else part.begin)
        return _Reading(consumer, stack.pop_all())
