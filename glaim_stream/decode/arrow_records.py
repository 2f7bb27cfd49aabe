"""Readings that come as Arrow IPC streams: long (group, sensor, ts, value) or wide (group, ts, a column a sensor)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.decode.dead_letters import DeadLetterCause, InputRecord, Reject, key_text
from glaim_stream.decode.groups import NO_GROUP, UNKNOWN_SENSOR, GroupIndex
from glaim_stream.decode.parsed import Parsed, Said, positions, qualities

ARROW_CONTENT_TYPE = b"application/vnd.apache.arrow.stream"
_LONG = {"sensor", "value"}
_MOST_READINGS = 1_000_000  # in one record: a column of nulls may claim any length and weigh nothing
_BROKEN = (pa.ArrowException, ValueError, KeyError, TypeError, OSError)


@dataclass(frozen=True, slots=True)
class _Stream:
    """One record's table."""

    place: int
    table: pa.Table
    key_group: str | None


def is_arrow(record: InputRecord) -> bool:
    """Whether the record says that it is an Arrow stream."""
    return any(name == "content-type" and value == ARROW_CONTENT_TYPE for name, value in record.headers)


def parse_arrow(
    records: Sequence[InputRecord], places: Sequence[int], index: GroupIndex, rejects: list[Reject]
) -> list[Parsed]:
    """Read the records at some places of a batch; what cannot be read is added to the rejects.

    Tables of one schema are read together: what a column costs is paid once for all of them.

    Returns:
        Their readings, in one part for each schema or so.
    """
    alike: dict[bytes, list[_Stream]] = {}
    for place in places:
        record = records[place]
        try:
            table = _table(record.value or b"")
        except _BROKEN as error:
            rejects.append(_unreadable(record, error))
            continue
        if table.num_rows * len([name for name in table.column_names if name not in ("group", "ts")]) == 0:
            detail = "the Arrow stream holds no reading"
            rejects.append(Reject(record.offset, DeadLetterCause.MALFORMED, detail))
            continue
        alike.setdefault(_schema(record.value or b""), []).append(_Stream(place, table, key_text(record)))
    parts = []
    for streams in alike.values():
        try:
            parts.append(_parse(streams, index))
        except _BROKEN:
            for stream in streams:
                try:
                    parts.append(_parse([stream], index))
                except _BROKEN as error:
                    rejects.append(_unreadable(records[stream.place], error))
    return parts


def _unreadable(record: InputRecord, error: Exception) -> Reject:
    return Reject(record.offset, DeadLetterCause.UNDECODABLE, f"not a readable Arrow stream: {error}")


def _table(stream: bytes) -> pa.Table:
    """The rows of one stream.

    Raises:
        pa.ArrowException, ValueError, KeyError, TypeError: the stream is broken, or has no `ts`.
    """
    with pa.ipc.open_stream(stream) as reader:
        table = reader.read_all()
    if table.num_rows * max(table.num_columns, 1) > _MOST_READINGS:
        raise ValueError(f"expected at most {_MOST_READINGS} cells, found {table.num_rows} rows of {table.num_columns}")
    table.validate(full=True)  # reading trusts the offsets and lengths inside, and following a wrong one may crash
    if "ts" not in table.column_names:
        raise KeyError(f"expected a column ts, found {sorted(table.column_names)}")
    return table


def _schema(stream: bytes) -> bytes:
    """The message that a stream begins with: 4 bytes of mark, 4 of its length, then itself."""
    return stream[: 8 + int.from_bytes(stream[4:8], "little")]


def _parse(streams: Sequence[_Stream], index: GroupIndex) -> Parsed:
    """Readings of tables that have one schema, row by row."""
    table = pa.concat_tables([stream.table for stream in streams])
    counts = [stream.table.num_rows for stream in streams]
    of = np.repeat(np.arange(len(streams)), counts)
    record = np.array([stream.place for stream in streams], np.int64)[of]
    names = set(table.column_names)
    time = _times_ms(table["ts"])
    if "group" in names:
        group = _codes(table["group"], index.groups, NO_GROUP)
    else:
        group = index.groups([stream.key_group for stream in streams])[of]

    def group_said(row: int) -> str | None:
        return _text(table["group"][row]) if "group" in names else streams[int(of[row])].key_group

    def time_said(row: int) -> int | None:
        return None if np.isnan(time[row]) else int(time[row])

    if names >= _LONG:
        return Parsed(
            group,
            _codes(table["sensor"], index.sensors, UNKNOWN_SENSOR),
            time,
            _numbers(table["value"]),
            record,
            positions(counts),
            _qualities(table["quality"]) if "quality" in names else None,
            lambda row: Said(group_said(row), _text(table["sensor"][row]), time_said(row)),
        )
    sensors = [name for name in table.column_names if name not in ("group", "ts")]
    width = len(sensors)
    return Parsed(
        np.repeat(group, width),
        np.tile(index.sensors(sensors), table.num_rows),
        np.repeat(time, width),
        np.stack([_numbers(table[name]) for name in sensors], axis=1).ravel(),
        np.repeat(record, width),
        positions([count * width for count in counts]),
        None,
        lambda cell: Said(group_said(cell // width), sensors[cell % width], time_said(cell // width)),
    )


def _codes(column: pa.ChunkedArray, codes: Any, null: int) -> NDArray[np.int64]:
    """Codes of a column of names: each distinct one is looked up once."""
    distinct, place = _distinct(_texts(column))
    code = np.append(codes(distinct), null)  # the last one answers for null
    return code[place]


def _distinct(column: pa.ChunkedArray) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct values, and the place among them of each row, -1 for null."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    chunk = encoded.unify_dictionaries().combine_chunks()
    place = chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return chunk.dictionary.to_pylist(), place


def _times_ms(column: pa.ChunkedArray) -> NDArray[np.float64]:
    if pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            raise ValueError("expected ts as a timestamp with a zone or as epoch milliseconds, found no zone")
        column = pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False)
    return _floats(pc.cast(column, pa.int64()))


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return _floats(pc.cast(column, pa.float64()))


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """NaN for null."""
    floats: NDArray[np.float64] = column.to_numpy().astype(np.float64, copy=False)
    return floats


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of texts, its dictionary kept where it has one."""
    if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
        return column
    return pc.cast(column, pa.string())


def _text(scalar: pa.Scalar) -> str | None:
    text: str | None = scalar.cast(pa.string()).as_py()
    return text


def _qualities(column: pa.ChunkedArray) -> NDArray[np.int8] | None:
    """Qualities are words, or StatusCodes in a column of integers."""
    distinct, place = _distinct(column if pa.types.is_integer(column.type) else _texts(column))
    meant = qualities([*distinct, None])
    return None if meant is None else meant[place]
