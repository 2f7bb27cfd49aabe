"""Reads one record batch of Kafka's format 2, record by record, and reads on after a record that is damaged.

Source of the format: https://kafka.apache.org/documentation/#recordbatch
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self, TypeAlias

from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.structs import ConsumerRecord, TopicPartition

from glaim_stream.decode.unreadable import UnreadableRecord
from glaim_stream.kafka.unpack import UnpackError, unpack

log = logging.getLogger(__name__)

Record: TypeAlias = ConsumerRecord | UnreadableRecord

MAX_HEADERS = 10_000  # of one record; each takes 100 bytes of memory, and a record may hold half a million in 1 MB
UNREADABLE_HEADER = "glaim-unreadable"
_LARGE_BYTES = 1 << 20  # a record above this is read by the slow parser, which counts its headers first
_HEADER = struct.Struct(">qiibIhiqqqhii")  # the fields before the records, in the order of `BatchHeader.read`
_LENGTH = struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")
_CODEC_BITS = 0x07
_APPEND_TIME_BIT = 0x08


def unreadable_message(tp: TopicPartition, message: memoryview, offset: int, reason: str) -> UnreadableRecord:
    """A message of an older format, which is a batch by itself, as one unreadable record with its bytes."""
    marked = [(UNREADABLE_HEADER, reason.encode(errors="backslashreplace"))]
    return UnreadableRecord(tp.topic, tp.partition, offset, -1, 0, None, bytes(message), marked, reason, offset)


class Damaged(Exception):
    """Bytes that are no record."""


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """What the fields before the records state."""

    base_offset: int
    attributes: int
    next_offset: int
    first_timestamp: int
    max_timestamp: int
    count: int

    @classmethod
    def read(cls, batch: memoryview) -> Self:
        """Read the fields.

        Raises:
            struct.error: the batch is shorter than they are.
        """
        fields = _HEADER.unpack_from(batch)
        base, attributes, last_delta = fields[0], fields[5], fields[6]
        return cls(base, attributes, base + max(0, last_delta) + 1, fields[7], fields[8], fields[12])

    @property
    def timestamp_type(self) -> int:
        """1 if the broker stamped the records, else 0."""
        return int(bool(self.attributes & _APPEND_TIME_BIT))


class BatchReader:
    """The records of one batch."""

    def __init__(self, tp: TopicPartition, batch: memoryview, max_unpacked_bytes: int) -> None:
        self._tp, self._batch, self._limit = tp, batch, max_unpacked_bytes
        self.header = BatchHeader.read(batch)

    def __iter__(self) -> Iterator[Record]:
        """Yield each record in order; offsets ascend, and every offset of a damaged part is in one of its records."""
        header = self.header
        try:
            plain = self._unpacked()
        except UnpackError as error:
            yield self.whole(str(error))
            return
        number, next_offset = 0, header.base_offset
        if _is_simple(plain):
            try:
                for record in DefaultRecordBatch(plain):
                    if len(record.headers) > MAX_HEADERS or not self._is_at(record.offset, number, next_offset):
                        break
                    number, next_offset = number + 1, record.offset + 1
                    yield _consumer_record(self._tp, record)
                else:
                    return
            except Exception as error:  # the slow parser names what is wrong, and reads on after it
                log.debug("%s-%d: a batch is read slowly: %r", *self._tp, error)
        yield from self._slowly(plain[_HEADER.size :], number, next_offset)

    def whole(self, reason: str) -> UnreadableRecord:
        """The whole batch as one unreadable record, with its bytes."""
        header = self.header
        return self._unreadable(header.base_offset, header.next_offset - 1, bytes(self._batch), reason)

    def _unpacked(self) -> memoryview:
        """The batch without compression.

        Raises:
            UnpackError: see unpack.
        """
        codec = self.header.attributes & _CODEC_BITS
        if not codec:
            return self._batch
        out = bytearray(self._batch[: _HEADER.size])
        for piece in unpack(codec, self._batch[_HEADER.size :], self._limit):
            out += piece
        _LENGTH.pack_into(out, 8, len(out) - 12)
        _ATTRIBUTES.pack_into(out, 21, self.header.attributes & ~_CODEC_BITS)
        return memoryview(out)

    def _is_at(self, offset: int, number: int, next_offset: int) -> bool:
        """Whether a record has an offset of its own; a producer states it, and the broker does not check it."""
        header = self.header
        if header.count == header.next_offset - header.base_offset:
            return offset == header.base_offset + number
        return next_offset <= offset < header.next_offset  # compaction has removed some

    def _slowly(self, body: memoryview, number: int, next_offset: int) -> Iterator[Record]:
        """Yield the records from one on: the first `number` of the body are done."""
        place = 0
        header = self.header
        dense = header.count == header.next_offset - header.base_offset
        for current in range(header.count):
            try:
                length, start = _varint(body, place)
                end = start + length
                if length < 0 or end > len(body):
                    raise Damaged(f"a record of {length} bytes, where {len(body) - start} are left")
            except Damaged as error:
                yield self._unreadable(next_offset, header.next_offset - 1, bytes(body[place:]), str(error))
                return
            place = end
            if current < number:
                continue  # done before
            fields = _Fields(body[start:end], header)
            fields.read()
            reason = fields.reason
            if not reason and not self._is_at(fields.offset, current, next_offset):
                reason = f"it states the offset {fields.offset}"
            offset = header.base_offset + current if dense else fields.offset
            if not dense and not self._is_at(offset, current, next_offset):
                yield self._unreadable(next_offset, header.next_offset - 1, bytes(body[start:]), reason)
                return
            next_offset = offset + 1
            if reason:
                value = fields.value if fields.has_value else bytes(body[start:end])
                yield self._unreadable(offset, offset, value, reason, fields.key, fields.headers, fields.timestamp)
            else:
                sizes = [-1 if text is None else len(text) for text in (fields.key, fields.value)]
                yield ConsumerRecord(
                    *self._tp, offset, fields.timestamp, header.timestamp_type, fields.key, fields.value, None,
                    *sizes, tuple(fields.headers),
                )  # fmt: skip
        if next_offset < header.next_offset and dense:
            yield self._unreadable(next_offset, header.next_offset - 1, b"", "the batch holds fewer records")

    def _unreadable(
        self,
        first: int,
        last: int,
        value: bytes | None,
        reason: str,
        key: bytes | None = None,
        headers: list[tuple[str, bytes]] | None = None,
        timestamp: int | None = None,
    ) -> UnreadableRecord:
        marked = [*(headers or []), (UNREADABLE_HEADER, reason.encode(errors="backslashreplace"))]
        time = self.header.max_timestamp if timestamp is None else timestamp
        kind = self.header.timestamp_type
        topic, partition = self._tp
        return UnreadableRecord(topic, partition, max(first, last), time, kind, key, value, marked, reason, first)


class _Fields:
    """The fields of one record, as far as they can be read; `reason` says what is wrong."""

    def __init__(self, record: memoryview, header: BatchHeader) -> None:
        self._record, self._header = record, header
        self.offset = -1
        self.timestamp = header.max_timestamp
        self.key: bytes | None = None
        self.value: bytes | None = None
        self.has_value = False
        self.headers: list[tuple[str, bytes]] = []
        self.reason = ""

    def read(self) -> None:
        """Read all fields."""
        record, header = self._record, self._header
        try:
            delta, place = _varint(record, 1)  # after the attributes, one byte
            if not header.timestamp_type:
                self.timestamp = max(-(2**63), min(header.first_timestamp + delta, 2**63 - 1))
            delta, place = _varint(record, place)
            self.offset = header.base_offset + delta
            self.key, place = _text(record, place, "key")
            self.value, place = _text(record, place, "value")
            self.has_value = True
            count, place = _varint(record, place)
            if not 0 <= count <= MAX_HEADERS:
                raise Damaged(f"{count} headers, where at most {MAX_HEADERS} are read")
            for number in range(count):
                name, place = _text(record, place, "header's name")
                if name is None:
                    raise Damaged(f"header {number} has no name")
                text, place = _text(record, place, "header's value")
                self._add(number, name, text)
            if place != len(record):
                raise Damaged(f"{len(record) - place} bytes follow the last header")
        except Damaged as error:
            self.reason = str(error)

    def _add(self, number: int, name: bytes, text: bytes | None) -> None:
        try:
            readable = name.decode()
        except UnicodeDecodeError:
            readable = name.decode(errors="backslashreplace")
            self.reason = self.reason or f"the name of header {number} is not UTF-8: {readable[:100]}"
        self.headers.append((readable, text))  # type: ignore[arg-type]  # aiokafka gives None, too


def _consumer_record(tp: TopicPartition, record: object) -> ConsumerRecord:
    key, value = record.key, record.value  # type: ignore[attr-defined]
    return ConsumerRecord(
        tp.topic,
        tp.partition,
        record.offset,  # type: ignore[attr-defined]
        record.timestamp,  # type: ignore[attr-defined]
        record.timestamp_type,  # type: ignore[attr-defined]
        key,
        value,
        None,
        -1 if key is None else len(key),
        -1 if value is None else len(value),
        tuple(record.headers),  # type: ignore[attr-defined]
    )


def _is_simple(plain: memoryview) -> bool:
    """Whether no record is so large that its headers should be counted before they are read."""
    if len(plain) <= _LARGE_BYTES + _HEADER.size:
        return True
    place = _HEADER.size
    try:
        while place < len(plain):
            length, start = _varint(plain, place)
            if length > _LARGE_BYTES or length < 0:
                return False
            place = start + length
    except Damaged:
        return False
    return True


def _text(record: memoryview, place: int, name: str) -> tuple[bytes | None, int]:
    """(text, place after it); None for a length of -1."""
    length, place = _varint(record, place)
    if length == -1:
        return None, place
    if length < 0 or place + length > len(record):
        raise Damaged(f"a {name} of {length} bytes, where {len(record) - place} are left")
    return bytes(record[place : place + length]), place + length


def _varint(text: memoryview, place: int) -> tuple[int, int]:
    """(number, place after it): seven bits a byte, the lowest first, zigzag.

    Raises:
        Damaged: the number has more than 64 bits or is cut short.
    """
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(text):
            break
        byte = text[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), place
    raise Damaged("a number that is cut short or has more than 64 bits")
