"""Bytes of `sensor-readings` into columns; what cannot be read is set aside, and the rest flows on.

By `content-type` header: JSON when absent, Arrow IPC streams for `application/vnd.apache.arrow.stream`. A JSON record
is one reading, one step (`values`) or many readings (`readings`). Nothing here raises on bad input.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from glaim_stream.deadletters import DeadLetterCause, InputRecord, Reject
from glaim_stream.decode_arrow import ARROW_CONTENT_TYPE, arrow_readings
from glaim_stream.groups import UNKNOWN_GROUP, GroupIndex
from glaim_stream.quality import quality_of
from glaim_stream.readings import Readings, no_readings
from glaim_stream.records import Quality

FLOAT32_MAX = float(np.finfo(np.float32).max)

Time = int | float | str | None
Stated = int | float | str | None  # quality: a word or a StatusCode


class ReadingItem(msgspec.Struct):
    """One reading inside a `readings` record; `group` and `ts` may stand on the record instead."""

    sensor: str
    value: float | None = None
    ts: Time = None
    group: str | None = None
    quality: Stated = None


class JsonRecord(msgspec.Struct):
    """The union of the three JSON shapes; which one it is follows from the field that is present."""

    group: str | None = None
    sensor: str | None = None
    ts: Time = None
    value: float | None = None
    quality: Stated = None
    values: dict[str, float | None] | None = None
    readings: list[ReadingItem] | None = None


class SingleRecord(msgspec.Struct, gc=False):
    """A record that is one reading, group and all, and nothing else: the fast path."""

    group: str
    sensor: str
    ts: Time = None
    value: float | None = None
    quality: Stated = None
    values: None = None  # the marks of the other shapes: a record that has one is none of these
    readings: None = None


@dataclass(slots=True)
class Rows:
    """Readings still as names, in order of arrival."""

    cells: list[tuple[str, str]] = field(default_factory=list)  # (group, sensor)
    times: list[Time] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    records: list[int] = field(default_factory=list)  # which of the batch's records carried it
    positions: list[int] = field(default_factory=list)
    qualities: dict[int, Quality] = field(default_factory=dict)  # by row, of those that are not good

    def state(self, qualities: Iterable[Stated]) -> None:
        """Note the qualities that the readings to be added next state of themselves."""
        found = enumerate(map(quality_of, qualities), len(self.values))
        self.qualities.update((row, quality) for row, quality in found if quality != Quality.GOOD)


_decoder = msgspec.json.Decoder(JsonRecord)
_single_decoder = msgspec.json.Decoder(SingleRecord)
_Document = TypeVar("_Document")


class Decoder:
    """Decodes batches of records for one catalogue."""

    def __init__(self, index: GroupIndex) -> None:
        self._index = index
        self._max_ahead_ms = int(index.catalogue.max_ahead_s * 1000)

    def decode(self, records: Sequence[InputRecord], *, now_ms: int) -> tuple[Readings, list[Reject]]:
        """Decode records of one partition in order.

        Args:
            records: Kafka records.
            now_ms: wall time, epoch milliseconds, for records that do not say when they were produced.

        Returns:
            The readings that can be used, in order of arrival, and what was refused.
        """
        rows = Rows()
        rejects: list[Reject] = []
        start = 0
        for end, record in enumerate(records):
            if record.headers and _is_arrow(record):
                _collect_json(records[start:end], start, rows, rejects)
                _collect_arrow(record, end, rows, rejects)
                start = end + 1
        _collect_json(records[start:], start, rows, rejects)
        return (self._columns(rows, records, now_ms, rejects) if rows.cells else no_readings()), rejects

    def _columns(self, rows: Rows, records: Sequence[InputRecord], now_ms: int, rejects: list[Reject]) -> Readings:
        cells = self._index.cells(rows.cells)
        times_ms, timed = _times_ms(rows.times)
        values = np.array(rows.values, np.float64)  # None becomes NaN: a reported dropout
        quality = _qualities(rows.qualities, values)
        carriers, positions = np.array(rows.records, np.int64), np.array(rows.positions, np.int32)
        offsets = np.fromiter((record.offset for record in records), np.int64, len(records))[carriers]
        produced = np.fromiter((record.timestamp for record in records), np.int64, len(records))
        produced_ms = np.where(produced < 0, now_ms, produced)[carriers]

        model, group, sensor = self._index.cell_columns(np.maximum(cells, 0)) if (cells >= 0).any() else (cells,) * 3
        known = cells >= 0
        # Ahead of the record's time, not of the wall clock: a rebuild reads the same records later, and must refuse
        # the same readings.
        on_time = timed & (times_ms <= produced_ms + self._max_ahead_ms)
        within = np.ones(len(cells), np.bool_)
        if known.any():
            low, high = self._index.limits_low[model, sensor], self._index.limits_high[model, sensor]
            # NaN compares false both ways and stays: a dropout has no limits to break.
            within = ~((values < low) | (values > high) | (np.abs(values) > FLOAT32_MAX)) | ~known
        good = known & on_time & within
        all_good = bool(good.all())
        for row in np.flatnonzero(~good):
            cause, detail = self._why(rows, int(row), int(cells[row]), bool(timed[row]), bool(on_time[row]))
            rejects.append(Reject(int(offsets[row]), cause, detail, int(positions[row])))
        readings = Readings(
            model.astype(np.int32),
            group.astype(np.int32),
            sensor.astype(np.int32),
            times_ms,
            values.astype(np.float32) if all_good else np.where(good, values, 0).astype(np.float32),
            offsets,
            positions,
            quality,
            produced_ms,
        )
        return readings if all_good else readings.where(good)

    def _why(self, rows: Rows, row: int, cell: int, timed: bool, on_time: bool) -> tuple[DeadLetterCause, str]:
        group, sensor = rows.cells[row]
        if cell < 0:
            if cell == UNKNOWN_GROUP:
                return DeadLetterCause.UNKNOWN_GROUP, f"group {group!r} is not in the catalogue"
            return DeadLetterCause.UNKNOWN_SENSOR, f"sensor {sensor!r} is not one of group {group!r}"
        if not timed:
            return (
                DeadLetterCause.BAD_TIME,
                f"expected epoch milliseconds or ISO 8601 with a zone, found {rows.times[row]!r}",
            )
        if not on_time:
            return DeadLetterCause.FUTURE, f"{rows.times[row]!r} is too far ahead of when it was produced"
        model = self._index.catalogue.models[self._index.model_of_group[self._index.group(group)]]
        low, high = next(known.limits for known in model.sensors if known.id == sensor)
        return DeadLetterCause.OUT_OF_LIMITS, f"{rows.values[row]!r} of {sensor} is outside [{low}, {high}]"


def _collect_json(records: Sequence[InputRecord], first: int, rows: Rows, rejects: list[Reject]) -> None:
    """Rows of consecutive JSON records, of which the first is the batch's record `first`."""
    if not records:
        return
    singles = _decode_lines(records, _single_decoder)
    if singles is not None:
        _collect_singles(singles, first, rows)
        return
    together = _decode_lines(records, _decoder)
    documents = [_decode_one(record, rejects) for record in records] if together is None else together
    for place, (record, document) in enumerate(zip(records, documents, strict=True), first):
        if document is not None:
            _collect_document(record, document, place, rows, rejects)


def _decode_lines(records: Sequence[InputRecord], decoder: msgspec.json.Decoder[_Document]) -> list[_Document] | None:
    """All records in one pass, 3 times as fast as one by one; None unless every record is one line that decodes.

    Joined by newlines they are decoded as lines, and the lines are counted before and after: a record that itself
    holds a newline, or is blank, cannot shift its neighbours.
    """
    values = [record.value or b"" for record in records]
    joined = b"\n".join(values)
    if joined.count(b"\n") != len(values) - 1:
        return None
    try:
        documents = decoder.decode_lines(joined)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return documents if len(documents) == len(values) else None


def _decode_one(record: InputRecord, rejects: list[Reject]) -> JsonRecord | None:
    value = record.value
    if not value:
        rejects.append(Reject(record.offset, DeadLetterCause.UNDECODABLE, "the record has no value"))
        return None
    try:
        return _decoder.decode(value)
    except msgspec.ValidationError as error:
        cause, detail = DeadLetterCause.MALFORMED, str(error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:  # NaN and Infinity are no JSON, yet Python's and others' encoders write them
            document = json.loads(value)
            msgspec.json.encode(document)  # json lets lone surrogates pass, which no text of our output could hold
            return msgspec.convert(document, JsonRecord)
        except msgspec.ValidationError as error:
            cause, detail = DeadLetterCause.MALFORMED, str(error)
        except (ValueError, RecursionError) as error:
            cause, detail = DeadLetterCause.UNDECODABLE, f"not JSON: {error}"
    except RecursionError as error:
        cause, detail = DeadLetterCause.UNDECODABLE, f"not JSON: {error}"
    rejects.append(Reject(record.offset, cause, detail))
    return None


def _collect_singles(readings: Sequence[SingleRecord], first: int, rows: Rows) -> None:
    """Column by column, which is faster than reading by reading."""
    qualities = [reading.quality for reading in readings]
    if any(qualities):
        rows.state(qualities)
    rows.cells += [(reading.group, reading.sensor) for reading in readings]
    rows.times += [reading.ts for reading in readings]
    rows.values += [reading.value for reading in readings]
    rows.records += range(first, first + len(readings))
    rows.positions += [0] * len(readings)


def _collect_document(record: InputRecord, document: JsonRecord, place: int, rows: Rows, rejects: list[Reject]) -> None:
    shapes = [
        name
        for name, part in (("sensor", document.sensor), ("values", document.values), ("readings", document.readings))
        if part is not None
    ]
    if len(shapes) != 1:
        found = " and ".join(shapes) or "none of them"
        detail = f"expected one of sensor, values, readings, found {found}"
        rejects.append(Reject(record.offset, DeadLetterCause.MALFORMED, detail))
        return
    group = document.group if document.group is not None else _text(record.key)
    if document.readings is not None:
        items = [
            (item.group or group, item.sensor, document.ts if item.ts is None else item.ts, item.value, item.quality)
            for item in document.readings
        ]
    elif document.values is not None:
        items = [(group, sensor, document.ts, value, document.quality) for sensor, value in document.values.items()]
    else:
        items = [(group, document.sensor or "", document.ts, document.value, document.quality)]
    if not items:
        rejects.append(Reject(record.offset, DeadLetterCause.MALFORMED, f"{shapes[0]} is empty"))
    for position, (item_group, sensor, time, value, quality) in enumerate(items):
        if item_group is None:
            detail = "no group, neither in the record nor as its key"
            rejects.append(Reject(record.offset, DeadLetterCause.MALFORMED, detail, position))
            continue
        rows.cells.append((item_group, sensor))
        rows.times.append(time)
        if quality:
            rows.state([quality])
        rows.values.append(value)
        rows.records.append(place)
        rows.positions.append(position)


def _collect_arrow(record: InputRecord, place: int, rows: Rows, rejects: list[Reject]) -> None:
    try:
        columns = arrow_readings(record.value or b"", key_group=_text(record.key))
    except (pa.ArrowException, ValueError, KeyError, TypeError, OSError) as error:
        rejects.append(Reject(record.offset, DeadLetterCause.UNDECODABLE, f"not a readable Arrow stream: {error}"))
        return
    if not columns.sensors:
        rejects.append(Reject(record.offset, DeadLetterCause.MALFORMED, "the Arrow stream holds no reading"))
        return
    for position, (group, sensor) in enumerate(zip(columns.groups, columns.sensors, strict=True)):
        if group is None or sensor is None:
            detail = "a row without group or sensor"
            rejects.append(Reject(record.offset, DeadLetterCause.MALFORMED, detail, position))
            continue
        if columns.qualities is not None:
            rows.state([columns.qualities[position]])
        rows.cells.append((group, sensor))
        rows.times.append(columns.times_ms[position])
        rows.values.append(columns.values[position])
        rows.records.append(place)
        rows.positions.append(position)


def _qualities(stated: Mapping[int, Quality], values: NDArray[np.float64]) -> NDArray[np.int8]:
    """int8 [n], by row; `values` becomes NaN where a reading says that its value is bad."""
    quality = np.zeros(len(values), np.int8)
    if stated:
        quality[list(stated)] = list(stated.values())
        values[quality == Quality.BAD] = np.nan
    quality[np.isnan(values)] = Quality.BAD
    return quality


def _times_ms(times: Sequence[Time]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Epoch milliseconds, and where they could be read."""
    column = np.array(times) if not isinstance(times[0], str) else None
    if column is None or column.dtype.kind not in "iuf":  # ISO stamps, or a mixture
        column = np.array([_time_ms(time) for time in times], np.float64)
    timed = (column >= _EARLIEST_MS) & (column <= _LATEST_MS)  # NaN, an unreadable one, compares false
    return np.floor(np.where(timed, column, 0)).astype(np.int64), timed


# Years 1900 to 2200: outside of them a stamp is an error of unit (seconds, microseconds), not a time.
_EARLIEST_MS, _LATEST_MS = -2_208_988_800_000, 7_258_118_400_000


def _time_ms(time: Time) -> float:
    if isinstance(time, str):
        try:
            moment = datetime.fromisoformat(time)
            return moment.timestamp() * 1000 if moment.tzinfo is not None else math.nan
        except (ValueError, OverflowError):
            return math.nan
    try:
        return math.nan if time is None else float(time)
    except OverflowError:
        return math.nan


def _is_arrow(record: InputRecord) -> bool:
    return any(name == "content-type" and value == ARROW_CONTENT_TYPE for name, value in record.headers)


def _text(key: bytes | None) -> str | None:
    if not key:
        return None
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None
