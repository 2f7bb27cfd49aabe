"""Readings in JSON: a record is one reading, one step of a group, or many readings."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

import msgspec
import numpy as np

from glaim_stream.core.budget import DEFAULT, Budget
from glaim_stream.core.readings import InputRecord
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.decode.dead_letters import key_text
from glaim_stream.decode.exact import with_inexact
from glaim_stream.decode.format import Format
from glaim_stream.decode.groups import GroupIndex
from glaim_stream.decode.parsed import Parsed, Said, Stated, Time, no_number, positions, qualities, times_ms

_NEWLINE = 10
_REGISTRY_MAGIC, _REGISTRY_PREFIX_BYTES = b"\0", 5  # of Confluent's wire format: a zero and the id of the schema
_MAGIC = ((b"Obj\1", "a file of Avro"), (b"PAR1", "a file of Parquet"), (b"ARROW1", "a file of Arrow"),
          (b"\xff\xff\xff\xff", "an Arrow stream, whose record lacks the header content-type"))  # fmt: skip
_FEW = 16  # up to this many records are decoded one by one if they do not decode together


class ReadingItem(msgspec.Struct, gc=False):
    """One reading of a `readings` record; `group` and `ts` default to those of the record."""

    sensor: str
    value: float | None = None
    ts: Time = None
    group: str | None = None
    quality: Stated = None


class JsonRecord(msgspec.Struct):
    """The union of the three JSON shapes; the field that is present decides which one it is."""

    group: str | None = None
    sensor: str | None = None
    ts: Time = None
    value: float | None = None
    quality: Stated = None
    values: dict[str, float | None] | None = None
    readings: list[ReadingItem] | None = None


class FaultyRecord(JsonRecord):
    """A record of which some readings cannot be used: they have NaN as their value, and a fault."""

    faults: dict[int, str] = {}  # by position in the record; msgspec copies it


class SingleRecord(msgspec.Struct, gc=False):
    """A record of one reading with its group: decodes faster than the union."""

    group: str
    sensor: str
    ts: Time = None
    value: float | None = None
    quality: Stated = None
    values: None = None  # a record with a field of another shape does not decode as this one
    readings: None = None


class PlainItem(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """One reading of a `readings` record as gateways send them: sensor, epoch milliseconds and value."""

    sensor: str
    ts: int
    value: float | None = None


class PlainBatch(msgspec.Struct, forbid_unknown_fields=True):
    """A record of plain items of one group: needs half as many columns as the union."""

    group: str
    readings: list[PlainItem]


_decoder = msgspec.json.Decoder(JsonRecord)
_single_decoder = msgspec.json.Decoder(SingleRecord)
_plain_decoder = msgspec.json.Decoder(PlainBatch)
_Document = TypeVar("_Document")
_Single = SingleRecord | JsonRecord


def parse_json(
    records: Sequence[InputRecord],
    places: Sequence[int],
    index: GroupIndex,
    rejects: list[Reject],
    budget: Budget = DEFAULT,
) -> list[Parsed]:
    """Parse the records at the given places of a batch and add the unreadable ones to the rejects.

    Args:
        records: records of the batch.
        places: places of JSON records within the budget of bytes.
        index: codes of groups and sensors.
        rejects: list to which rejects are added.
        budget: limits the number of readings in one record.

    Returns:
        The readings in at most one part per shape.
    """
    most_readings = budget.record_readings
    chosen = records if len(places) == len(records) else [records[place] for place in places]
    lines = _lines(chosen)
    if lines is not None:  # most producers send polls in one shape; a wrong guess costs the decoding of one record
        if (singles := _decode_lines(lines, len(chosen), _single_decoder)) is not None:
            return with_inexact([_singles(singles, [single.group for single in singles], places, index)], records)
        plain = _decode_lines(lines, len(chosen), _plain_decoder)
        if plain is not None and (part := _plain_batches(plain, places, index, most_readings)) is not None:
            return with_inexact([part], records)
    found: tuple[list[int], list[int], list[int]] = ([], [], [])
    documents = _documents(chosen, lines, rejects)
    for number, document in enumerate(documents):
        shape = _shape(chosen[number], document, rejects, most_readings) if document is not None else None
        if shape is not None:
            found[shape].append(number)
    parts = []
    for parse, numbers in zip((_singles, _steps, _batches), found, strict=True):
        if numbers:
            of_shape = [document for number in numbers if (document := documents[number]) is not None]
            groups = [
                document.group if document.group is not None else key_text(chosen[number])
                for number, document in zip(numbers, of_shape, strict=True)
            ]
            part = parse(of_shape, groups, [places[number] for number in numbers], index)
            faults = {
                places[number]: document.faults
                for number, document in zip(numbers, of_shape, strict=True)
                if isinstance(document, FaultyRecord)
            }
            parts.append(_with_faults(part, faults) if faults else part)
    return with_inexact(parts, records)


def _with_faults(part: Parsed, faults: Mapping[int, Mapping[int, str]]) -> Parsed:
    """The part with the faults of single readings, by place of the record and position in it."""
    rows = np.flatnonzero(np.isin(part.record, list(faults)))
    found = {row: faults[int(part.record[row])].get(int(part.position[row]), "") for row in rows.tolist()}
    faulty = np.zeros(len(part), np.bool_)
    faulty[[row for row, fault in found.items() if fault]] = True
    return replace(part, faulty=faulty, said=lambda row: part.said(row)._replace(fault=found.get(row, "")))


JSON = Format("json", lambda record: True, parse_json)  # of every record that no other format detects


def _lines(records: Sequence[InputRecord]) -> bytes | None:
    """The records joined by newlines; None if a record itself contains a newline."""
    joined = b"\n".join([record.value or b"" for record in records])
    # Four times as fast as bytes.count.
    newlines = np.count_nonzero(np.frombuffer(joined, np.uint8) == _NEWLINE)
    return joined if newlines == len(records) - 1 else None


def _decode_lines(lines: bytes, count: int, decoder: msgspec.json.Decoder[_Document]) -> list[_Document] | None:
    """Decode all records in one pass, 3 times as fast as one by one; None unless all `count` lines decode.

    The lines are counted before and after, so that a record with a newline or a blank record cannot shift its
    neighbours.
    """
    try:
        documents = decoder.decode_lines(lines)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return documents if len(documents) == count else None


def _documents(
    records: Sequence[InputRecord], lines: bytes | None, rejects: list[Reject]
) -> Sequence[JsonRecord | None]:
    """One document per record, None for a rejected one. A broken record slows down its neighbours, not the batch."""
    together = None if lines is None else _decode_lines(lines, len(records), _decoder)
    if together is not None:
        return together
    if len(records) <= _FEW:
        return [_decode_one(record, rejects) for record in records]
    middle = len(records) // 2
    halves = records[:middle], records[middle:]
    return [document for half in halves for document in _documents(half, _lines(half), rejects)]


def _decode_one(record: InputRecord, rejects: list[Reject]) -> JsonRecord | None:
    value = record.value
    if not value:
        rejects.append(Reject(record.offset, DeadLetterCause.UNDECODABLE, "the record has no value"))
        return None
    try:
        try:
            return _decoder.decode(value)
        # A field may be of the wrong type; NaN and Infinity are not JSON, but Python and other encoders write them.
        except (msgspec.DecodeError, UnicodeDecodeError):
            document = json.loads(value, parse_int=_integer)
            msgspec.json.encode(document)  # json accepts lone surrogates, which the output cannot encode
        return _converted(document)
    except msgspec.ValidationError as error:
        cause, detail = DeadLetterCause.MALFORMED, str(error)
    except (ValueError, RecursionError) as error:  # msgspec.DecodeError and UnicodeDecodeError are ValueErrors
        cause, detail = DeadLetterCause.UNDECODABLE, f"not JSON: {foreign_format(value) or error}"
    rejects.append(Reject(record.offset, cause, detail))
    return None


def foreign_format(value: bytes) -> str | None:
    """What a value that is not JSON begins like; None if that is no format we know."""
    if value[:1] == _REGISTRY_MAGIC and len(value) > _REGISTRY_PREFIX_BYTES:
        schema = int.from_bytes(value[1:_REGISTRY_PREFIX_BYTES], "big")
        name = "JSON behind the id" if value[_REGISTRY_PREFIX_BYTES : _REGISTRY_PREFIX_BYTES + 1] in b"{[" else "Avro"
        return f"it begins like {name} of a schema registry (id {schema})"
    return next((f"it begins like {name}" for magic, name in _MAGIC if value.startswith(magic)), None)


def _converted(document: Any) -> JsonRecord:
    """A decoded record, without those of its readings whose fields are of the wrong type.

    Raises:
        msgspec.ValidationError: a field of the record itself is of the wrong type.
    """
    if not isinstance(document, dict):
        return msgspec.convert(document, JsonRecord)
    faults: dict[int, str] = {}
    document = {name: field for name, field in document.items() if name != "faults"}
    values, items = document.get("values"), document.get("readings")
    if not _is_number(document.get("value")):
        faults[0] = no_number(document.get("sensor"), document["value"])
        document = document | {"value": math.nan}
    if isinstance(values, dict):
        wrong = {sensor: position for position, (sensor, value) in enumerate(values.items()) if not _is_number(value)}
        faults |= {position: no_number(sensor, values[sensor]) for sensor, position in wrong.items()}
        document = document | {"values": values | dict.fromkeys(wrong, math.nan)}
    if isinstance(items, list):
        read = [_converted_item(position, item, faults) for position, item in enumerate(items)]
        document = document | {"readings": None}
    record = msgspec.convert(document, FaultyRecord)
    record.faults = faults
    if isinstance(items, list):
        record.readings = read
    return record


def _converted_item(position: int, item: Any, faults: dict[int, str]) -> ReadingItem:
    try:
        return msgspec.convert(item, ReadingItem)
    except msgspec.ValidationError as error:
        faults[position] = str(error)
    if isinstance(item, dict) and not _is_number(item.get("value")):
        faults[position] = no_number(item.get("sensor"), item["value"])
        with suppress(msgspec.ValidationError):
            return msgspec.convert(item | {"value": math.nan}, ReadingItem)
    return ReadingItem(None, math.nan)  # type: ignore[arg-type]  # not even the sensor is known


def _integer(digits: str) -> int | float:
    """An integer, or the float that it overflows to; Python refuses to read one of more than 4,300 digits."""
    number = float(digits)
    return number if math.isinf(number) else int(digits)


def _is_number(value: object) -> bool:
    """Whether a decoded value is a number or null."""
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _shape(record: InputRecord, document: JsonRecord, rejects: list[Reject], most_readings: int) -> int | None:
    """0 for one reading, 1 for a step, 2 for many readings; None, and a reject, for no shape or several."""
    parts = (document.sensor, document.values, document.readings)
    shapes = [shape for shape, part in enumerate(parts) if part is not None]
    count = max(len(document.values or ()), len(document.readings or ()))
    if count > most_readings:
        detail = f"expected at most {most_readings} readings in one record, found {count}"
        rejects.append(Reject(record.offset, DeadLetterCause.TOO_LARGE, detail))
        return None
    if len(shapes) == 1 and (shapes[0] == 0 or parts[shapes[0]]):
        return shapes[0]
    names = [("sensor", "values", "readings")[shape] for shape in shapes]
    detail = f"expected one of sensor, values, readings, found {' and '.join(names) or 'none of them'}"
    if len(shapes) == 1:
        detail = f"{names[0]} is empty"
    rejects.append(Reject(record.offset, DeadLetterCause.MALFORMED, detail))
    return None


# Column by column is faster than reading by reading.


def _singles(
    documents: Sequence[_Single], groups: Sequence[str | None], places: Sequence[int], index: GroupIndex
) -> Parsed:
    count = len(documents)
    return Parsed(
        index.groups(groups),
        index.sensors([document.sensor for document in documents]),
        times_ms([document.ts for document in documents]),
        np.fromiter([document.value for document in documents], np.float64, count),  # None becomes NaN
        np.array(places, np.int64),
        np.zeros(count, np.int64),
        qualities([document.quality for document in documents]),
        lambda row: Said(groups[row], documents[row].sensor, documents[row].ts),
    )


def _steps(
    documents: Sequence[JsonRecord], groups: Sequence[str | None], places: Sequence[int], index: GroupIndex
) -> Parsed:
    steps = [document.values or {} for document in documents]
    counts = [len(step) for step in steps]
    record_of_row = np.repeat(np.arange(len(steps)), counts)
    position = positions(counts)
    quality = qualities([document.quality for document in documents])

    def said(row: int) -> Said:
        number = int(record_of_row[row])
        return Said(groups[number], list(steps[number])[int(position[row])], documents[number].ts)

    return Parsed(
        index.groups(groups)[record_of_row],
        index.sensors(list(chain.from_iterable(steps))),
        times_ms([document.ts for document in documents])[record_of_row],
        np.fromiter(chain.from_iterable([step.values() for step in steps]), np.float64, len(record_of_row)),
        np.array(places, np.int64)[record_of_row],
        position,
        None if quality is None else quality[record_of_row],
        said,
    )


def _plain_batches(
    documents: Sequence[PlainBatch], places: Sequence[int], index: GroupIndex, most_readings: int
) -> Parsed | None:
    """The fast form of `_batches`; None if a record has no readings or too many, or a time exceeds 64 bits."""
    counts = [len(document.readings) for document in documents]
    if max(counts) > most_readings:
        return None
    items = [item for document in documents for item in document.readings]
    try:
        time = np.fromiter([item.ts for item in items], np.int64, len(items))
    except OverflowError:
        return None
    if not all(counts):
        return None
    record_of_row = np.repeat(np.arange(len(documents)), counts)
    return Parsed(
        index.groups([document.group for document in documents])[record_of_row],
        index.sensors([item.sensor for item in items]),
        time.astype(np.float64),
        np.fromiter([item.value for item in items], np.float64, len(items)),
        np.array(places, np.int64)[record_of_row],
        positions(counts),
        None,
        lambda row: Said(documents[int(record_of_row[row])].group, items[row].sensor, items[row].ts),
    )


def _batches(
    documents: Sequence[JsonRecord], groups: Sequence[str | None], places: Sequence[int], index: GroupIndex
) -> Parsed:
    counts = [len(document.readings or ()) for document in documents]
    items = [item for document in documents for item in document.readings or ()]
    record_of_row = np.repeat(np.arange(len(documents)), counts)
    group = index.groups(groups)[record_of_row]
    own_groups = [item.group for item in items]
    if any(own_groups):
        own = np.flatnonzero([bool(name) for name in own_groups])
        group[own] = index.groups([own_groups[row] for row in own.tolist()])
    times: list[Time] = [item.ts for item in items]
    time = times_ms(times)
    if None in times:
        absent = np.flatnonzero([each is None for each in times])
        time[absent] = times_ms([document.ts for document in documents])[record_of_row[absent]]

    def said(row: int) -> Said:
        number, item = int(record_of_row[row]), items[row]
        return Said(item.group or groups[number], item.sensor, documents[number].ts if item.ts is None else item.ts)

    return Parsed(
        group,
        index.sensors([item.sensor for item in items]),
        time,
        np.fromiter([item.value for item in items], np.float64, len(items)),
        np.array(places, np.int64)[record_of_row],
        positions(counts),
        qualities([item.quality for item in items]),
        said,
    )
