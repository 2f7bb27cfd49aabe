"""Reads the output topic as it grows: filtered rows one message after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from glaim_stream.errors import RecordError, SettingsError
from glaim_stream.kafka.connection import consumer_options
from glaim_stream.records import read_rows, without_dictionaries
from glaim_stream.settings import Settings

_POLL_MS = 200
_FETCH_BYTES = 8 * 1024**2


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
    consumer = _consumer(settings, from_beginning)
    remaining = limit
    try:
        last_s = time.monotonic()
        while timeout_s is None or time.monotonic() - last_s < timeout_s:
            for records in consumer.poll(timeout_ms=_POLL_MS).values():
                last_s = time.monotonic()
                for record in records:
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
        consumer.close()


def _consumer(settings: Settings, from_beginning: bool) -> Any:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import KafkaError

    try:
        consumer = KafkaConsumer(
            **consumer_options(settings),
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=_FETCH_BYTES,
        )
    except KafkaError as error:
        raise SettingsError(f"GLAIM_KAFKA: expected a broker at {settings.kafka}, found none: {error}") from error
    topic = settings.output_topic
    if topic not in consumer.topics():
        consumer.close()
        raise SettingsError(f"expected the topic {topic} at {settings.kafka}, found none of that name")
    partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]
    consumer.assign(partitions)
    (consumer.seek_to_beginning if from_beginning else consumer.seek_to_end)(*partitions)
    for each in partitions:
        consumer.position(each)  # fixes the end now and not at the first poll
    return consumer
