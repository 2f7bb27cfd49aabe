"""Readings in Arrow IPC streams: long (group, sensor, ts, value) or wide (group, ts, one column per sensor)."""

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
_MAX_CELLS = 1_000_000  # in one record; a column of nulls takes no bytes whatever length it claims
_BROKEN = (pa.ArrowException, ValueError, KeyError, TypeError, OSError)


@dataclass(frozen=True, slots=True)
class _Stream:
    """The table of one record."""

    place: int
    table: pa.Table
    key_group: str | None


def is_arrow(record: InputRecord) -> bool:
    """Whether the record's content type is an Arrow stream."""
    return any(name == "content-type" and value == ARROW_CONTENT_TYPE for name, value in record.headers)


def parse_arrow(
    records: Sequence[InputRecord], places: Sequence[int], index: GroupIndex, rejects: list[Reject]
) -> list[Parsed]:
    """Parse the records at the given places of a batch and add the unreadable ones to the rejects.

    Tables with the same schema are parsed together, so that the fixed cost per column arises once.

    Returns:
        The readings in one part per schema; in one part per record where a schema's tables fail together.
    """
    by_schema: dict[bytes, list[_Stream]] = {}
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
        by_schema.setdefault(_schema(record.value or b""), []).append(_Stream(place, table, key_text(record)))
    parts = []
    for streams in by_schema.values():
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
    """Read and validate one stream.

    Raises:
        pa.ArrowException, ValueError, KeyError, TypeError, OSError: the stream is broken, too large, or has no `ts`.
    """
    with pa.ipc.open_stream(stream) as reader:
        table = reader.read_all()
    if table.num_rows * table.num_columns > _MAX_CELLS:
        raise ValueError(f"expected at most {_MAX_CELLS} cells, found {table.num_rows} rows of {table.num_columns}")
    table.validate(full=True)  # Arrow follows offsets unchecked when it reads values; a wrong one can crash the process
    if "ts" not in table.column_names:
        raise KeyError(f"expected a column ts, found {sorted(table.column_names)}")
    return table


def _schema(stream: bytes) -> bytes:
    """The schema message at the start of a stream: a 4-byte marker, a 4-byte length, then the message."""
    return stream[: 8 + int.from_bytes(stream[4:8], "little")]


def _parse(streams: Sequence[_Stream], index: GroupIndex) -> Parsed:
    """Readings of tables with the same schema, row by row."""
    table = pa.concat_tables([stream.table for stream in streams])
    counts = [stream.table.num_rows for stream in streams]
    stream_of_row = np.repeat(np.arange(len(streams)), counts)
    record = np.array([stream.place for stream in streams], np.int64)[stream_of_row]
    names = set(table.column_names)
    time = _times_ms(table["ts"])
    typed = pa.types.is_timestamp(table["ts"].type)
    if "group" in names:
        group = _codes(table["group"], index.groups, NO_GROUP)
    else:
        group = index.groups([stream.key_group for stream in streams])[stream_of_row]

    def stated_group(row: int) -> str | None:
        return _text(table["group"][row]) if "group" in names else streams[int(stream_of_row[row])].key_group

    def stated_time(row: int) -> int | None:
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
            lambda row: Said(stated_group(row), _text(table["sensor"][row]), stated_time(row)),
            typed,
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
        lambda cell: Said(stated_group(cell // width), sensors[cell % width], stated_time(cell // width)),
        typed,
    )


def _codes(column: pa.ChunkedArray, codes: Any, null: int) -> NDArray[np.int64]:
    """Codes of a column of names; each distinct name is looked up once."""
    distinct, place = _distinct(_texts(column))
    code = np.append(codes(distinct), null)  # index -1, null, selects the last code
    return code[place]


def _distinct(column: pa.ChunkedArray) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct values, and the index of each row's value among them, -1 for null."""
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
    """The column as floats, NaN for null."""
    floats: NDArray[np.float64] = column.to_numpy().astype(np.float64, copy=False)
    return floats


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column as strings; a dictionary of strings stays encoded."""
    if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
        return column
    return pc.cast(column, pa.string())


def _text(scalar: pa.Scalar) -> str | None:
    text: str | None = scalar.cast(pa.string()).as_py()
    return text


def _qualities(column: pa.ChunkedArray) -> NDArray[np.int8] | None:
    """Quality of each row, from names, or from StatusCodes as integers, which are read as their digits."""
    distinct, place = _distinct(_texts(column))
    meant = qualities([*distinct, None])
    return None if meant is None else meant[place]
