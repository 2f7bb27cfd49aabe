"""Reads files as records of the input topic: readings become messages as in `produce`, raw messages stay unchanged.

Records go to partitions by the hash of their key, as with a producer: each partition has its own watermark, so only
the same partitions give the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice, repeat
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from aiokafka.partitioner import DefaultPartitioner

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.readings import InputRecord
from glaim_stream.decode import ReadingRecords
from glaim_stream.feed.formats import InputFormat
from glaim_stream.feed.messages import ARROW_HEADERS, Encoder, Plan, plan_messages
from glaim_stream.feed.sources import Source
from glaim_stream.files import OF_ROWS, PlainLong, refusal

RAW_ENDINGS = (".jsonl", ".ndjson", ".arrows")  # one message per line, or consecutive Arrow IPC streams
RawMessage = tuple[bytes | None, bytes, Sequence[tuple[str, bytes]]]  # key, value, headers
Messages = Iterator[RawMessage]
Content = Plan | PlainLong | Sequence[RawMessage]  # of a file: messages, or what they are made of


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A record as the input topic would hold it."""

    key: bytes | None
    value: bytes | None
    offset: int
    timestamp: int
    headers: Sequence[tuple[str, bytes]] = ()


class _Group(msgspec.Struct):
    group: str


class _FilledRow(msgspec.Struct):  # fields of OF_ROWS
    method: msgspec.Raw
    observed: msgspec.Raw
    value: msgspec.Raw


Dealt = tuple[int, Sequence[InputRecord], int]  # partition, records, messages so far


@dataclass(slots=True)
class Dealer:
    """An assignment of messages to partitions and offsets, as a producer and a broker make it."""

    partitions: int
    now_ms: int
    _next: dict[int, int] = field(default_factory=dict)
    _partitions_by_key: dict[bytes | None, int] = field(default_factory=dict)

    def deal(self, messages: Messages, most: int) -> Iterator[Dealt]:
        """Deal chunks of `most` messages, their partitions in ascending order."""
        taken = 0
        while chunk := list(islice(messages, most)):
            of_partition: dict[int, list[FileRecord]] = {}
            for key, value, headers in chunk:
                partition = self.partition(key)
                offset = self._next.get(partition, 0)
                self._next[partition] = offset + 1
                of_partition.setdefault(partition, []).append(FileRecord(key, value, offset, self.now_ms, headers))
            taken += len(chunk)
            for partition, records in sorted(of_partition.items()):
                yield partition, records, taken

    def partition(self, key: bytes | None) -> int:
        """The partition of the messages with a key."""
        partition = self._partitions_by_key.get(key)
        if partition is None:
            numbers = list(range(self.partitions))
            # A producer picks a random partition for a record without a key; a replay must be reproducible.
            partition = 0 if key is None else DefaultPartitioner()(key, numbers, numbers)
            self._partitions_by_key[key] = partition
        return partition


def planned(plan: Plan) -> Messages:
    """Yield (key, value, headers) of each message of a plan, encoded in slices."""
    encoder = Encoder(plan)
    headers = ARROW_HEADERS if plan.input_format is InputFormat.ARROW else []
    for first in range(0, len(plan), _SLICE):
        for group, value in encoder.messages(first, min(first + _SLICE, len(plan))):
            yield encoder.keys[group], value, headers


def records_of(plan: Plan, *, first: int, now_ms: int) -> Sequence[InputRecord]:
    """The records of a plan whose messages all go to one partition, from the offset `first` on."""
    encoder = cache(lambda: Encoder(plan))  # seldom used

    def make(offset: int) -> FileRecord:
        ((group, value),) = encoder().messages(offset - first, offset - first + 1)
        return FileRecord(encoder().keys[group], value, offset, now_ms)

    if plan.input_format is InputFormat.SINGLE:
        source = plan.source
        value = source.value.astype(np.float64, copy=False)
        if source.value.dtype != np.float64:  # as their texts are read
            value = np.asarray(pa.array(source.value).cast(pa.string()).cast(pa.float64()))
        return ReadingRecords(source.cells, source.cell, source.time_ms, value, first, make)
    return [
        FileRecord(key, value, first + place, now_ms, headers)
        for place, (key, value, headers) in enumerate(planned(plan))
    ]


def messages_of(content: Content) -> Messages:
    """The messages of a file."""
    if isinstance(content, PlainLong):
        pieces = list(content.pieces())
        cell, time_ms, value = (
            np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("cell", "time_ms", "value")
        )
        order = np.argsort(time_ms, kind="stable")
        source = Source(content.cells, cell[order], time_ms[order], value[order])
        content = plan_messages(source, InputFormat.SINGLE)
    return planned(content) if isinstance(content, Plan) else iter(content)


def raw_messages(path: Path) -> list[RawMessage]:
    """Return (key, value, headers) of each message of a file; the key is the group that a JSON message names.

    Raises:
        SettingsError: the file cannot be read, is empty, holds filled rows, or its name has none of RAW_ENDINGS.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    messages: list[RawMessage]
    if path.suffix == ".arrows":
        messages = [(key, value, ARROW_HEADERS) for key, value in _streams(data, path)]
    elif path.suffix in RAW_ENDINGS:
        lines = [line for line in data.split(b"\n") if line.strip()]
        if any(map(_is_filled_row, lines)):
            raise SettingsError(refusal(str(path), OF_ROWS))
        messages = list(zip(map(_json_key, lines), lines, repeat(())))
    else:
        raise SettingsError(f"{path}: expected a name ending in {', '.join(RAW_ENDINGS)}")
    if not messages:
        raise SettingsError(f"{path}: expected messages, found none")
    return messages


def holds_messages(path: Path) -> bool:
    """Whether a file of RAW_ENDINGS holds messages of the topic, not a table in JSON lines such as `{"time", "flow"}`.

    One line with the names of a message suffices; the pipeline then rejects and counts the others.
    """
    if path.suffix == ".arrows":
        return True
    tables = 0
    try:
        with path.open("rb") as file:
            for line in islice((line for line in file if line.strip()), _JUDGED):
                try:
                    found = msgspec.json.decode(line)
                except (msgspec.MsgspecError, UnicodeError, RecursionError):
                    continue
                if not isinstance(found, dict) or any(names <= set(found) for names in _MESSAGES):
                    return True
                tables += 1
    except OSError:
        return True  # `raw_messages` reports the error
    return not tables


_JUDGED = 100  # lines that are checked for messages
_MESSAGES = ({"readings"}, {"values"}, {"sensor", "value"}, {"sensor", "ts"})
_SLICE = 2000  # messages that are encoded at a time
_group_decoder = msgspec.json.Decoder(_Group)
_row_decoder = msgspec.json.Decoder(_FilledRow)


def _json_key(line: bytes) -> bytes | None:
    try:
        return _group_decoder.decode(line).group.encode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None  # the pipeline rejects lines that cannot be decoded


def _is_filled_row(line: bytes) -> bool:
    """Whether a line is a row of the output topic, as `tail --format jsonl` prints it."""
    try:
        _row_decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


def _streams(data: bytes, path: Path) -> Iterator[tuple[bytes | None, bytes]]:
    source = pa.BufferReader(data)
    while (start := source.tell()) < len(data):
        try:
            table = pa.ipc.open_stream(source).read_all()
        except (pa.ArrowException, OSError) as error:
            raise SettingsError(f"{path}: expected Arrow IPC streams, found none at byte {start}: {error}") from error
        if set(table.column_names) >= OF_ROWS:
            raise SettingsError(refusal(str(path), OF_ROWS))
        groups = table["group"].to_pylist() if "group" in table.column_names and table.num_rows else [None]
        yield (str(groups[0]).encode() if groups[0] is not None else None), data[start : source.tell()]
