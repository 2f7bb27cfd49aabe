"""Readings in Arrow IPC streams: long (group, sensor, ts, value) or wide (group, ts, one column per sensor)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from glaim_stream.core.budget import DEFAULT, Budget, OverBudget
from glaim_stream.core.readings import InputRecord
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.decode.arrow_columns import (
    NameColumn,
    faulty,
    inexact,
    is_timestamp,
    names,
    numbers,
    times_ms,
)
from glaim_stream.decode.arrow_streams import BROKEN, Claim, claim_of, read_claimed, sensors_of
from glaim_stream.decode.dead_letters import key_text
from glaim_stream.decode.format import Format
from glaim_stream.decode.groups import NO_GROUP, UNKNOWN_SENSOR, Codes, GroupIndex
from glaim_stream.decode.parsed import Parsed, Said, no_number, positions, qualities

ARROW_CONTENT_TYPE = b"application/vnd.apache.arrow.stream"


@dataclass(frozen=True, slots=True)
class _Stream:
    """The table of one record."""

    place: int
    table: pa.Table
    key_group: str | None


def is_arrow(record: InputRecord) -> bool:
    """Whether the record's content type is an Arrow stream."""
    return any(name == "content-type" and value == ARROW_CONTENT_TYPE for name, value in record.headers)


def measure(
    records: Sequence[InputRecord], places: Sequence[int], budget: Budget, rejects: list[Reject]
) -> dict[int, Claim]:
    """Measure the records at the given places of a batch, and add those that are broken or too large to the rejects."""
    claims = {}
    for place in places:
        try:
            claims[place] = claim_of(records[place].value or b"").within(budget)
        except BROKEN as error:
            rejects.append(_unreadable(records[place], error))
    return claims


def parse_arrow(
    records: Sequence[InputRecord],
    places: Sequence[int],
    index: GroupIndex,
    rejects: list[Reject],
    budget: Budget = DEFAULT,
) -> list[Parsed]:
    """Parse the records at the given places of a batch and add the unreadable ones to the rejects.

    Tables with the same schema are parsed together, so that the fixed cost per column arises once.

    Args:
        records: records of the batch.
        places: places of records that `measure` admitted.
        index: codes of groups and sensors.
        rejects: list to which rejects are added.
        budget: limits, which the measured records keep.

    Returns:
        The readings in one part per schema; in one part per record where a schema's tables fail together.
    """
    by_schema: dict[bytes, list[_Stream]] = {}
    for place in places:
        record = records[place]
        try:
            table = read_claimed(record.value or b"")
            if "ts" not in table.column_names:
                raise KeyError(f"expected a column ts, found {sorted(table.column_names)}")
        except BROKEN as error:
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
        except BROKEN:
            for stream in streams:
                try:
                    parts.append(_parse([stream], index))
                except BROKEN as error:
                    rejects.append(_unreadable(records[stream.place], error))
    return parts


ARROW = Format("arrow", is_arrow, parse_arrow, measure)


def _unreadable(record: InputRecord, error: Exception) -> Reject:
    if isinstance(error, OverBudget):
        return Reject(record.offset, DeadLetterCause.TOO_LARGE, str(error))
    return Reject(record.offset, DeadLetterCause.UNDECODABLE, f"not a readable Arrow stream: {error}")


def _schema(stream: bytes) -> bytes:
    """The schema message at the start of a stream: a 4-byte marker, a 4-byte length, then the message."""
    return stream[: 8 + int.from_bytes(stream[4:8], "little")]


def _parse(streams: Sequence[_Stream], index: GroupIndex) -> Parsed:
    """Readings of tables with the same schema, row by row."""
    table = pa.concat_tables([stream.table for stream in streams])
    counts = [stream.table.num_rows for stream in streams]
    stream_of_row = np.repeat(np.arange(len(streams)), counts)
    record = np.array([stream.place for stream in streams], np.int64)[stream_of_row]
    time = times_ms(table["ts"])
    typed = is_timestamp(table["ts"])
    stated = names(table["group"]) if "group" in table.column_names else None
    if stated is not None:
        group = _codes(stated, index.groups(stated.distinct), NO_GROUP)
    else:
        group = index.groups([stream.key_group for stream in streams])[stream_of_row]

    def stated_group(row: int) -> str | None:
        return stated[row] if stated is not None else streams[int(stream_of_row[row])].key_group

    def stated_time(row: int) -> int | None:
        return None if np.isnan(time[row]) else int(time[row])

    sensors = sensors_of(table.column_names)
    if sensors is None:
        sensor = names(table["sensor"])
        values = table["value"]
        number = numbers(values)
        wrong = faulty(values, number)

        def stated_reading(row: int) -> Said:
            fault = "" if wrong is False or not wrong[row] else no_number(sensor[row], values[row].as_py())
            return Said(stated_group(row), sensor[row], stated_time(row), fault)

        return Parsed(
            group,
            _codes(sensor, index.sensors(sensor.distinct), UNKNOWN_SENSOR),
            time,
            number,
            record,
            positions(counts),
            _qualities(names(table["quality"])) if "quality" in table.column_names else None,
            stated_reading,
            typed,
            inexact(values),
            wrong,
        )
    width = len(sensors)
    columns = [numbers(table[name]) for name in sensors]
    faults = [faulty(table[name], column) for name, column in zip(sensors, columns, strict=True)]

    def stated_cell(cell: int) -> Said:
        row, place = divmod(cell, width)
        wrong, name = faults[place], sensors[place]
        fault = "" if wrong is False or not wrong[row] else no_number(name, table[name][row].as_py())
        return Said(stated_group(row), name, stated_time(row), fault)

    return Parsed(
        np.repeat(group, width),
        np.tile(index.sensors(sensors), table.num_rows),
        np.repeat(time, width),
        np.stack(columns, axis=1).ravel(),
        np.repeat(record, width),
        positions([count * width for count in counts]),
        None,
        stated_cell,
        typed,
        _cells([inexact(table[name]) for name in sensors], table.num_rows),
        _cells(faults, table.num_rows),
    )


def _cells(columns: Sequence[NDArray[np.bool_] | bool], rows: int) -> NDArray[np.bool_] | bool:
    """Columns of marks, each [rows] or False for none, as the marks of the cells row by row; False for none."""
    if all(each is False for each in columns):
        return False
    return np.stack([np.broadcast_to(each, rows) for each in columns], axis=1).ravel()


def _codes(column: NameColumn, codes: Codes, null: int) -> Codes:
    """Code of each row of a column of names, given the codes of its distinct names."""
    return np.append(codes, null)[column.place]  # index -1, null, selects the last code


def _qualities(column: NameColumn) -> NDArray[np.int8] | None:
    """Quality of each row, from names, or from StatusCodes as integers, which are read as their digits."""
    meant = qualities([*column.distinct, None])
    return None if meant is None else meant[column.place]
