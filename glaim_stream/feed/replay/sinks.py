"""Sinks of a replay: a file, or a topic with the worker's publisher."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from aiokafka import AIOKafkaProducer

from glaim_stream.core.settings import Settings
from glaim_stream.decode import HEADER_PREFIX, DeadLetter
from glaim_stream.kafka import LINGER_MS, Headers, KafkaPublisher, Send, producer_options, send_errors
from glaim_stream.output import Announcement, Output, Publisher, RowFile, read_rows, without_dictionaries


class FileSink:
    """A publisher of rows to a file that appears complete at the end; see output.Publisher."""

    def __init__(self, file: RowFile) -> None:
        self._file = file

    async def publish(self, output: Output) -> None:
        """Write only the rows of the output."""
        for message in output.messages:
            self._file.add(without_dictionaries(read_rows(message.value)))


class _LinesFile:
    """A file of JSON lines that appears complete at the end or not at all."""

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
    """A file of rejected records, one per line: offset, cause, detail, positions, and the value as text or hex."""

    def add(self, letters: Sequence[DeadLetter]) -> None:
        """Write dead letters."""
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
    """A file of outages and their ends, one per line, as on the outage topic."""

    def add(self, announcements: Sequence[Announcement]) -> None:
        """Write outages."""
        for each in announcements:
            self.write(each.value.decode())


class Recorded:
    """A sink whose dead letters and outages go to files, or nowhere.

    They do not go to their topics: the live worker has sent its dead letters, and announced each outage when it
    happened. Events of sensor health are left out.
    """

    def __init__(self, sink: Publisher, rejects: RejectFile | None, outages: OutageFile | None = None) -> None:
        self._sink, self._rejects, self._outages = sink, rejects, outages

    async def publish(self, output: Output) -> None:
        """See output.Publisher."""
        if self._rejects is not None:
            self._rejects.add(output.letters)
        if self._outages is not None:
            self._outages.add(output.announcements)
        await self._sink.publish(replace(output, letters=[], announcements=[], health=[]))


def producer_send(producer: AIOKafkaProducer) -> Send:
    """Send through a producer of aiokafka."""

    async def send(
        topic: str, key: bytes | None, value: bytes | None, partition: int | None, headers: Headers
    ) -> Awaitable[object]:
        async def acknowledgement() -> None:
            with send_errors(topic, value):
                await sent

        with send_errors(topic, value):
            sent = await producer.send(topic, value=value, key=key, partition=partition, headers=headers)
        return acknowledgement()

    return send


@asynccontextmanager
async def topic_sink(settings: Settings) -> AsyncIterator[KafkaPublisher]:
    """A publisher of rows to `settings.output_topic`, in the worker's messages."""
    async with AIOKafkaProducer(**({"linger_ms": LINGER_MS} | producer_options(settings))) as producer:
        yield KafkaPublisher(producer_send(producer), settings)
