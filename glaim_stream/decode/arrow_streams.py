"""Arrow IPC streams that are measured before they are read, so that a small one cannot fill the memory.

A record batch states its rows and the bytes of its buffers in its metadata, and each compressed buffer states its
decompressed length in its first eight bytes. Rows can also multiply what few bytes hold: a column of nulls takes none,
and dictionaries, views and run lengths let many rows refer to one long text. Hence columns are expanded by
`decode.arrow_columns`, which never writes such a text once per row.

Flatbuffers (https://flatbuffers.dev/internals): every read is checked; a wrong offset raises ValueError.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from glaim_stream.core.budget import Budget, OverBudget

BROKEN = (pa.ArrowException, ValueError, KeyError, TypeError, OSError)  # errors of an unreadable stream

# Places of fields in Arrow's format/Message.fbs
_HEADER = 2  # field of a Message: a RecordBatch or a DictionaryBatch
_ROWS, _BUFFERS, _COMPRESSION = 0, 2, 3  # fields of a RecordBatch
_DICTIONARY_DATA, _IS_DELTA = 1, 2  # fields of a DictionaryBatch, whose data is a RecordBatch
_LONG = {"sensor", "value"}
_LENGTH = struct.Struct("<q")
_STORED_PLAIN = -1  # stands in place of a decompressed length
_OLD_COMPRESSION = b"ARROW:experimental_compression"  # key of Arrow 0.17, which states it beside the record batch
_INT32, _INT64 = struct.Struct("<i"), struct.Struct("<q")
_UINT16, _UINT32 = struct.Struct("<H"), struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Claim:
    """The size that a stream states of its contents."""

    size_bytes: int  # bytes of all buffers, decompressed
    readings: int
    entries: int = 0  # entries of all dictionaries

    def within(self, budget: Budget) -> Self:
        """Return the claim if it fits the budget.

        Raises:
            OverBudget: the claim is more than one record may have.
        """
        for what, found, most in (
            ("decompressed bytes", self.size_bytes, budget.record_bytes),
            ("readings", self.readings, budget.record_readings),
            ("dictionary entries", self.entries, budget.record_readings),
        ):
            if found > most:
                raise OverBudget(f"expected at most {most} {what} in one record, found {found}")
        return self


def sensors_of(columns: Sequence[str]) -> list[str] | None:
    """The columns of a wide table that are sensors; None for a long table, whose sensors are in a column."""
    return None if set(columns) >= _LONG else [name for name in columns if name not in ("group", "ts")]


def claim_of(stream: bytes) -> Claim:
    """Measure a stream without decompressing anything.

    Raises:
        pa.ArrowException, ValueError, OSError: the stream is broken.
    """
    buffer = pa.py_buffer(stream)
    size_bytes = rows = entries = dictionary_bytes = 0
    for message in pa.ipc.MessageReader.open_stream(buffer):
        if message.type not in ("record batch", "dictionary"):
            continue
        metadata = message.metadata.to_pybytes()
        if _OLD_COMPRESSION in metadata:
            raise ValueError("expected a stream of Arrow 1.0 or later, found the compression of an earlier one")
        header = _header(FlatTable.root(metadata))
        dictionary = message.type == "dictionary"
        batch = header.table(_DICTIONARY_DATA) if dictionary else header
        if batch is None or batch.int64(_ROWS) < 0:
            raise ValueError("expected a batch of rows, found none")
        found_bytes = _size_bytes(batch, message.body)
        if dictionary:
            # A delta is appended to a copy of what the dictionary held.
            found_bytes += dictionary_bytes if header.byte(_IS_DELTA) else 0
            dictionary_bytes += found_bytes
            entries += batch.int64(_ROWS)
        else:
            rows += batch.int64(_ROWS)
        size_bytes += found_bytes
    with pa.ipc.open_stream(buffer) as reader:
        sensors = sensors_of(reader.schema.names)
    return Claim(size_bytes, rows * (1 if sensors is None else len(sensors)), entries)


def read_claimed(stream: bytes) -> pa.Table:
    """Read and validate a stream whose claim is within the budget, batch by batch.

    Raises:
        pa.ArrowException, ValueError, KeyError, TypeError, OSError: the stream is broken.
    """
    with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
        table = pa.Table.from_batches(list(reader), reader.schema)
    table.validate(full=True)  # Arrow follows offsets unchecked when it reads values; a wrong one can crash the process
    return table


def read_bounded(stream: bytes, budget: Budget) -> pa.Table:
    """`read_claimed` for a stream that was not measured before.

    Raises:
        OverBudget: the stream claims more than one record may have.
        pa.ArrowException, ValueError, KeyError, TypeError, OSError: the stream is broken.
    """
    claim_of(stream).within(budget)
    return read_claimed(stream)


def _header(message: FlatTable) -> FlatTable:
    header = message.table(_HEADER)
    if header is None:
        raise ValueError("expected a message with a header, found none")
    return header


def _size_bytes(batch: FlatTable, body: pa.Buffer) -> int:
    """Bytes of a batch's buffers once decompressed; buffers that overlap count each."""
    compressed = batch.table(_COMPRESSION) is not None
    content = memoryview(body) if body is not None else memoryview(b"")
    size_bytes = 0
    for offset, length in batch.int64_pairs(_BUFFERS):
        if length == 0:
            continue
        if offset < 0 or length < 0 or offset + length > len(content):
            raise ValueError(f"expected a buffer within {len(content)} bytes, found {length} bytes at {offset}")
        size_bytes += length
        if compressed:
            if length < _LENGTH.size:
                raise ValueError(f"expected a compressed buffer to state its length, found {length} bytes")
            stated: int = _LENGTH.unpack_from(content, offset)[0]
            if stated < _STORED_PLAIN:
                raise ValueError(f"expected a decompressed length, found {stated}")
            size_bytes += max(0, stated)
    return size_bytes


@dataclass(frozen=True, slots=True)
class FlatTable:
    """A table at a place in a buffer."""

    buffer: bytes
    place: int

    @classmethod
    def root(cls, buffer: bytes) -> Self:
        """The buffer's root table."""
        return cls(buffer, read(_UINT32, buffer, 0))

    def place_of(self, field: int) -> int:
        """Place of a field's content, counted from 0 as the schema declares them; 0 if the field is absent."""
        vtable = self.place - read(_INT32, self.buffer, self.place)
        entry = 4 + 2 * field
        if entry >= read(_UINT16, self.buffer, vtable):
            return 0
        offset = read(_UINT16, self.buffer, vtable + entry)
        return self.place + offset if offset else 0

    def byte(self, field: int) -> int:
        """A field of one byte; 0 by default."""
        place = self.place_of(field)
        if place >= len(self.buffer):
            raise ValueError(f"expected a byte within {len(self.buffer)} bytes, found place {place}")
        return self.buffer[place] if place else 0

    def int64(self, field: int) -> int:
        """A field of 64 bits; 0 by default."""
        place = self.place_of(field)
        return read(_INT64, self.buffer, place) if place else 0

    def table(self, field: int) -> Self | None:
        """A field that is a table; None if it is absent."""
        place = self.place_of(field)
        return type(self)(self.buffer, place + read(_UINT32, self.buffer, place)) if place else None

    def int64_pairs(self, field: int) -> list[tuple[int, int]]:
        """A field that is a vector of structs of two 64-bit integers; empty by default."""
        place = self.place_of(field)
        if not place:
            return []
        start = place + read(_UINT32, self.buffer, place)
        count = read(_UINT32, self.buffer, start)
        content = self.buffer[start + 4 : start + 4 + 16 * count]
        if len(content) != 16 * count:
            raise ValueError(f"expected a vector of {count} structs, found {len(content)} bytes")
        numbers = struct.unpack(f"<{2 * count}q", content)
        return list(zip(numbers[::2], numbers[1::2], strict=True))


def read(number: struct.Struct, buffer: bytes, place: int) -> int:
    """An integer at a place.

    Raises:
        ValueError: the place lies outside of the buffer.
    """
    if not 0 <= place <= len(buffer) - number.size:
        raise ValueError(f"expected {number.size} bytes within {len(buffer)} bytes, found place {place}")
    found: int = number.unpack_from(buffer, place)[0]
    return found
