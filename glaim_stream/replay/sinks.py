"""Where the rows of a replay go: a file, or a topic through the worker's own publisher."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from aiokafka import AIOKafkaProducer

from glaim_stream.decode.dead_letters import HEADER_PREFIX, DeadLetter
from glaim_stream.kafka.connection import kafka_options
from glaim_stream.kafka.publish import KafkaPublisher
from glaim_stream.output.announcements import Announcement
from glaim_stream.output.messages import Output
from glaim_stream.output.row_files import RowFile
from glaim_stream.records import read_rows, without_dictionaries
from glaim_stream.settings import Settings


class FileSink:
    """Rows into a file that appears whole at the end; see output.Publisher."""

    def __init__(self, file: RowFile) -> None:
        self._file = file

    async def publish(self, output: Output) -> None:
        """Write the rows; the letters are not the file's."""
        for message in output.messages:
            self._file.add(without_dictionaries(read_rows(message.value)))


class _LinesFile:
    """A file of JSON lines that appears whole at the end, or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._partial = path.with_name(path.name + ".partial")
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        self._file = self._partial.open("w")
        return self

    def write(self, document: str) -> None:
        """Add a line."""
        assert self._file is not None
        self._file.write(document + "\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        self._file.close()
        if kind is None:
            self._partial.replace(self.path)
        else:
            self._partial.unlink()


class RejectFile(_LinesFile):
    """What was refused, a line a record: place, cause, detail, positions, and the value as text or as hex."""

    def add(self, letters: Sequence[DeadLetter]) -> None:
        """Take in letters."""
        for letter in letters:
            ours = {
                name.removeprefix(HEADER_PREFIX): text.decode(errors="replace")
                for name, text in letter.headers
                if name.startswith(HEADER_PREFIX)
            }
            try:
                value = {"value": None if letter.value is None else letter.value.decode()}
            except UnicodeDecodeError:
                value = {"value_hex": (letter.value or b"").hex()}
            self.write(json.dumps(ours | value))


class OutageFile(_LinesFile):
    """Groups that went dark or spoke again, a line an event, as on the outage topic."""

    def add(self, announcements: Sequence[Announcement]) -> None:
        """Take in events."""
        for each in announcements:
            self.write(each.value.decode())


class Recorded:
    """A sink whose letters and outages go to files, or nowhere: they are counted.

    Not to their topics: the live worker has sent its letters, and whoever is to act on an outage was told of it when
    it happened.
    """

    def __init__(self, sink: Any, rejects: RejectFile | None, outages: OutageFile | None = None) -> None:
        self._sink, self._rejects, self._outages = sink, rejects, outages

    async def publish(self, output: Output) -> None:
        """See output.Publisher."""
        if self._rejects is not None:
            self._rejects.add(output.letters)
        if self._outages is not None:
            self._outages.add(output.announcements)
        await self._sink.publish(replace(output, letters=[], announcements=[]))


class _Producer:
    """aiokafka's producer in the words of Faust's, which is what the publisher speaks."""

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self._producer = producer

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp: float | None,
        headers: Sequence[tuple[str, bytes]],
    ) -> Any:
        """Hand over a message; what comes back is done when the broker has acknowledged it."""
        return await self._producer.send(topic, value=value, key=key, partition=partition, headers=list(headers))


class _App:
    def __init__(self, producer: AIOKafkaProducer) -> None:
        self.producer = _Producer(producer)


@asynccontextmanager
async def topic_sink(settings: Settings) -> AsyncIterator[KafkaPublisher]:
    """Rows to `settings.output_topic`, in messages like the worker's."""
    async with AIOKafkaProducer(
        **kafka_options(settings),
        acks="all",
        enable_idempotence=True,
        linger_ms=settings.linger_ms,
        max_request_size=settings.max_message_bytes,
    ) as producer:
        yield KafkaPublisher(_App(producer), settings)
