"""Reads the output topic as it grows: filtered rows one message after the other, and files of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from glaim_stream.errors import RecordError, SettingsError
from glaim_stream.kafka.connection import kafka_options
from glaim_stream.records import SCHEMA, newest_revisions, read_rows
from glaim_stream.settings import Settings

FILE_ENDINGS = (".arrow", ".parquet", ".csv")

_POLL_MS = 200
_FETCH_BYTES = 8 * 1024**2
_FOLD_ROWS = 2_000_000  # revisions are folded away whenever this many rows have come, which bounds the memory

# Dictionaries differ from message to message; a file has one schema.
PLAIN_SCHEMA = pa.schema(
    [
        pa.field(
            field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type, field.nullable
        )
        for field in SCHEMA
    ],
    metadata=SCHEMA.metadata,
)


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


def plain(table: pa.Table) -> pa.Table:
    """The table in PLAIN_SCHEMA: names as strings."""
    return pa.table(
        [
            column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            for column in table.columns
        ],
        schema=PLAIN_SCHEMA,
    )


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
                        table = chosen.apply(plain(read_rows(record.value or b"")))
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


class RowFile:
    """Writes rows to an Arrow, Parquet or CSV file, which appears whole when the context is left, or not at all.

    Leaving by Ctrl-C is leaving: what has come until then is kept. Leaving by an error drops the file.
    """

    def __init__(self, path: Path, *, newest_only: bool = False) -> None:
        if path.suffix not in FILE_ENDINGS:
            raise SettingsError(f"expected a file ending in {', '.join(FILE_ENDINGS)}, found {path}")
        self.path = path
        self.rows = 0  # written, known at the end
        self._newest_only = newest_only
        self._partial = path.with_name(path.name + ".partial")
        self._held: list[pa.Table] = []
        self._held_rows = 0
        self._writer: Any = None

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self

    def add(self, table: pa.Table) -> None:
        """Take in rows."""
        if not self._newest_only:
            self._write(table)
            return
        self._held.append(table)
        self._held_rows += table.num_rows
        if self._held_rows > _FOLD_ROWS:
            self._held = [newest_revisions(self._held)]
            self._held_rows = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        kept = kind is None or issubclass(kind, (KeyboardInterrupt, GeneratorExit))
        if kept:
            self._write(newest_revisions(self._held))  # nothing is held unless only the newest are asked for
            self._writer.close()
            self._partial.replace(self.path)
        elif self._writer is not None:
            self._writer.close()
            self._partial.unlink()

    def _write(self, table: pa.Table) -> None:
        if self._writer is None:
            self._writer = _writer(self._partial, self.path.suffix)
        self._writer.write_table(table.cast(PLAIN_SCHEMA))
        self.rows += table.num_rows


def _writer(path: Path, ending: str) -> Any:
    if ending == ".parquet":
        import pyarrow.parquet as pq

        return pq.ParquetWriter(path, PLAIN_SCHEMA, compression="zstd")
    if ending == ".csv":
        from pyarrow import csv

        return csv.CSVWriter(path, PLAIN_SCHEMA)
    return pa.ipc.new_file(path, PLAIN_SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd"))


def _consumer(settings: Settings, from_beginning: bool) -> Any:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import KafkaError

    try:
        consumer = KafkaConsumer(
            **kafka_options(settings),
            enable_auto_commit=False,
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
