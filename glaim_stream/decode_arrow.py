"""Readings that come as an Arrow IPC stream: long (group, sensor, ts, value) or wide (group, ts, a column a sensor)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

ARROW_CONTENT_TYPE = b"application/vnd.apache.arrow.stream"
_LONG = {"sensor", "value"}
_MOST_READINGS = 1_000_000  # in one record: a column of nulls may claim any length and weigh nothing


@dataclass(frozen=True, slots=True)
class ArrowReadings:
    """Readings as Python columns of one length, row by row of the stream."""

    groups: Sequence[str | None]
    sensors: Sequence[str | None]
    times_ms: Sequence[int | None]
    values: Sequence[float | None]
    qualities: Sequence[str | int | None] | None


def arrow_readings(stream: bytes, *, key_group: str | None) -> ArrowReadings:
    """Read one stream; a stream without a `group` column takes the record's key as group.

    Raises:
        pa.ArrowException, ValueError, KeyError, TypeError: the stream is broken, or `ts` or `value` cannot be read.
    """
    with pa.ipc.open_stream(stream) as reader:
        table = reader.read_all()
    if table.num_rows * max(table.num_columns, 1) > _MOST_READINGS:
        raise ValueError(f"expected at most {_MOST_READINGS} cells, found {table.num_rows} rows of {table.num_columns}")
    table.validate(full=True)  # reading trusts the offsets and lengths inside, and following a wrong one may crash
    names = set(table.column_names)
    if "ts" not in names:
        raise KeyError(f"expected a column ts, found {sorted(names)}")
    times = _times_ms(table["ts"])
    groups = _texts(table["group"]) if "group" in names else [key_group] * table.num_rows
    if names >= _LONG:
        return ArrowReadings(
            groups,
            _texts(table["sensor"]),
            times,
            _numbers(table["value"]),
            _stated(table["quality"]) if "quality" in names else None,
        )
    sensors = [name for name in table.column_names if name not in ("group", "ts")]
    count = len(sensors)
    columns = [_numbers(table[name]) for name in sensors]
    return ArrowReadings(
        [group for group in groups for _ in range(count)],
        sensors * table.num_rows,
        [time for time in times for _ in range(count)],
        [value for row in zip(*columns, strict=True) for value in row],
        None,
    )


def _times_ms(column: pa.ChunkedArray) -> list[int | None]:
    if pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            raise ValueError("expected ts as a timestamp with a zone or as epoch milliseconds, found no zone")
        column = pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False)
    times: list[int | None] = pc.cast(column, pa.int64()).to_pylist()
    return times


def _numbers(column: pa.ChunkedArray) -> list[float | None]:
    numbers: list[float | None] = pc.cast(column, pa.float64()).to_pylist()
    return numbers


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    texts: list[str | None] = pc.cast(column, pa.string()).to_pylist()
    return texts


def _stated(column: pa.ChunkedArray) -> list[str | int | None]:
    """Qualities: words, or StatusCodes in a column of integers."""
    stated: list[str | int | None]
    stated = column.to_pylist() if pa.types.is_integer(column.type) else _texts(column)  # type: ignore[assignment]
    return stated
