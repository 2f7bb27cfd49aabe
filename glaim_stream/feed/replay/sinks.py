"""Sinks of rows: a file, or a topic with the worker's publisher; and the files of a replay's rejects and outages."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from aiokafka import AIOKafkaProducer

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.decode import HEADER_PREFIX, DeadLetter
from glaim_stream.kafka import LINGER_MS, Headers, KafkaPublisher, Send, ensure_topic, producer_options, send_errors
from glaim_stream.output import Announcement, Output, RowFile, Sink


class FileSink:
    """A file of rows, registered as `file`; see output.Sink."""

    guarantee = "whole or not at all: the file appears when all rows are written, in place of an older one"

    def __init__(self, where: str, settings: Settings | None = None, *, newest_only: bool = False) -> None:
        """Prepare the file; see RowFile."""
        self._file = RowFile(Path(where), newest_only=newest_only)

    async def open(self, offsets: Mapping[int, int]) -> Mapping[int, int]:
        """See Sink."""
        self._file.__enter__()
        return offsets

    async def write(self, outputs: Sequence[Output]) -> None:
        """See Sink."""
        for output in outputs:
            for message in output.messages:
                self._file.add(message.table())

    async def close(self, *, complete: bool) -> None:
        """See Sink."""
        self._file.__exit__(None if complete else Exception, None, None)


class TopicSink:
    """A topic of rows in the worker's messages, registered as `topic`; see output.Sink."""

    guarantee = "at least once: the broker has acknowledged the rows; a repeated run publishes them again"

    def __init__(self, where: str, settings: Settings) -> None:
        """Prepare a topic, which is created when it is absent."""
        self._settings = settings.model_copy(update={"output_topic": where})

    async def open(self, offsets: Mapping[int, int]) -> Mapping[int, int]:
        """See Sink. The topic needs as many partitions as the input."""
        topic, partitions = self._settings.output_topic, max(offsets, default=-1) + 1
        there = ensure_topic(self._settings, topic, partitions)
        if there < partitions:
            raise SettingsError(f"{topic} needs at least {partitions} partitions, found {there}")
        self._producer = AIOKafkaProducer(**({"linger_ms": LINGER_MS} | producer_options(self._settings)))
        await self._producer.start()
        self._publisher = KafkaPublisher(producer_send(self._producer), self._settings)
        return offsets

    async def write(self, outputs: Sequence[Output]) -> None:
        """See Sink."""
        for output in outputs:
            await self._publisher.publish(output)

    async def close(self, *, complete: bool) -> None:
        """See Sink."""
        await self._producer.stop()


@asynccontextmanager
async def opened_sink(sink: Sink, offsets: Mapping[int, int]) -> AsyncIterator[None]:
    """Open a sink, and close it at the end; Ctrl-C leaves it complete.

    Raises:
        SettingsError: the sink cannot be used, or holds rows of later records than those at `offsets`.
    """
    stored = await sink.open(offsets)
    complete = False
    try:
        for partition, begin in offsets.items():
            if stored.get(partition, begin) > begin:
                raise SettingsError(
                    f"expected an output without rows of partition {partition} from offset {begin} on, found rows up "
                    f"to {stored[partition]}: begin there, or name another output"
                )
        yield
        complete = True
    except (KeyboardInterrupt, GeneratorExit):
        complete = True
        raise
    finally:
        await sink.close(complete=complete)


class LinesFile:
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


class RejectFile(LinesFile):
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


class OutageFile(LinesFile):
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

    def __init__(self, sink: Sink, rejects: RejectFile | None, outages: OutageFile | None = None) -> None:
        self._sink, self._rejects, self._outages = sink, rejects, outages

    async def publish(self, output: Output) -> None:
        """See output.Publisher."""
        if self._rejects is not None:
            self._rejects.add(output.letters)
        if self._outages is not None:
            self._outages.add(output.announcements)
        await self._sink.write([replace(output, letters=[], announcements=[], health=[])])


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
