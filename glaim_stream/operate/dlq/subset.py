"""Copies of a record that keep only some of its readings.

A whole record that is sent back would bring its good readings a second time. That would change the value of a step that
is the mean of its readings, and readings that are too late by then would each become a new letter.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from glaim_stream.core.budget import DEFAULT, Budget
from glaim_stream.decode import ARROW_CONTENT_TYPE, read_bounded

_LONG_COLUMNS = {"sensor", "value"}


def keep_readings(
    value: bytes, headers: Sequence[tuple[str, bytes]], positions: Sequence[int], budget: Budget = DEFAULT
) -> bytes:
    """A record's value with only the readings at `positions`.

    Args:
        value: value of the record.
        headers: headers of the record; the content-type tells Arrow from JSON.
        positions: positions as the decoder counts them: in the order of the list, or of the columns within a row.
        budget: limit of a value that is decoded.

    Returns:
        The value itself if it holds no other readings, or if it cannot be taken apart.
    """
    wanted = sorted(set(positions))
    try:
        if any(name == "content-type" and text == ARROW_CONTENT_TYPE for name, text in headers):
            return _arrow(value, wanted, budget)
        return value if len(value) > budget.record_json_bytes else _json(value, wanted)
    except (pa.ArrowException, ValueError, KeyError, IndexError, TypeError, OSError, RecursionError):
        return value


def _json(value: bytes, wanted: Sequence[int]) -> bytes:
    document = json.loads(value)
    if not isinstance(document, dict):
        return value
    if isinstance(document.get("readings"), list):
        readings = document["readings"]
        if len(wanted) == len(readings):
            return value
        document["readings"] = [readings[position] for position in wanted]
    elif isinstance(document.get("values"), dict):
        names = list(document["values"])
        if len(wanted) == len(names):
            return value
        document["values"] = {names[position]: document["values"][names[position]] for position in wanted}
    else:
        return value
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _arrow(value: bytes, wanted: Sequence[int], budget: Budget) -> bytes:
    table = read_bounded(value, budget)
    names = set(table.column_names)
    if names >= _LONG_COLUMNS:
        if len(wanted) == table.num_rows:
            return value
        return _stream(table.take(wanted))
    sensors = [name for name in table.column_names if name not in ("group", "ts")]
    if len(wanted) == table.num_rows * len(sensors):
        return value
    # A wide row cannot leave cells out, since null means that the sensor has no value: hence one row per reading.
    rows = [position // len(sensors) for position in wanted]
    chosen = [sensors[position % len(sensors)] for position in wanted]
    columns = {name: table[name].take(rows) for name in ("group", "ts") if name in names}
    kinds = {table[name].type for name in chosen}
    kind = kinds.pop() if len(kinds) == 1 else pa.float64()  # integers of 64 bits keep their digits
    numbers = {name: pc.cast(table[name], kind) for name in set(chosen)}
    columns["sensor"] = pa.array(chosen)
    place = {name: number * table.num_rows for number, name in enumerate(numbers)}
    cells = pa.chunked_array([chunk for column in numbers.values() for chunk in column.chunks], kind)
    columns["value"] = cells.take([place[name] + row for name, row in zip(chosen, rows, strict=True)])
    return _stream(pa.table(columns))


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream
