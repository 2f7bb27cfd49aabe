"""A value that is no number costs its own reading, in every format; the letter names the sensor and the value."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from glaim_stream.core.budget import DEFAULT
from glaim_stream.core.catalogue import parse_catalogue
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.decode import ARROW_CONTENT_TYPE, Decoder, GroupIndex, StatedReading, record_format
from glaim_stream.decode.decoder import Decoded
from tests.support import Record

T = 1_763_700_000_000
CATALOGUE = parse_catalogue(
    {
        "models": [{"name": "m", "step_s": 60, "sensors": [{"id": "a"}, {"id": "b"}, {"id": "c"}]}],
        "groups": [{"model": "m", "pattern": "*"}],
    },
    source="test",
)
MALFORMED = DeadLetterCause.MALFORMED


def decoded(value: object, *, arrow: bool = False) -> tuple[list[float], list[Reject]]:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    headers = [("content-type", ARROW_CONTENT_TYPE)] if arrow else []
    record = Record(body, 0, b"g", headers=headers, timestamp=T)
    readings, rejects = Decoder(GroupIndex(CATALOGUE)).decode([record], now_ms=T)
    return readings.value.tolist(), rejects


def arrow_stream(columns: dict[str, Any]) -> bytes:
    table = pa.table({"ts": pa.array([T] * len(next(iter(columns.values()))), pa.int64()), **columns})
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


@pytest.mark.parametrize(
    ("bad", "shown"),
    [
        ("0.73", "the text '0.73'"),
        ("Low", "the text 'Low'"),
        ("", "the text ''"),
        (True, "true"),
        ([1], "a list"),
        ({"v": 1}, "an object"),
    ],
)
@pytest.mark.parametrize("shape", ["values", "readings"])
def test_a_record_loses_the_value_that_is_no_number_and_keeps_the_others(bad: object, shown: str, shape: str) -> None:
    named = [("a", 1.5), ("b", bad), ("c", 2)]
    inside: object = dict(named) if shape == "values" else [{"sensor": name, "value": value} for name, value in named]
    record = {"ts": T, shape: inside}
    if shape == "readings":
        record = {"ts": T, "readings": inside}
    values, rejects = decoded(record)
    assert values == [1.5, 2.0]
    assert [(each.cause, each.position) for each in rejects] == [(MALFORMED, 1)]
    assert rejects[0].detail == f"expected a number or null as the value of 'b', found {shown}"


def test_a_record_of_one_reading_names_its_sensor_and_value() -> None:
    values, rejects = decoded({"ts": T, "sensor": "a", "value": "0.73"})
    assert values == []
    assert [each.detail for each in rejects] == ["expected a number or null as the value of 'a', found the text '0.73'"]


def test_an_item_with_a_field_of_the_wrong_type_is_lost_alone() -> None:
    items = [{"sensor": "a", "value": 1}, {"sensor": 5, "value": 1}, 7, {"sensor": "b", "ts": [], "value": 1}]
    values, rejects = decoded({"ts": T, "readings": [*items, {"sensor": "c", "value": 3}]})
    assert values == [1.0, 3.0]
    assert [(each.cause, each.position) for each in rejects] == [(MALFORMED, 1), (MALFORMED, 2), (MALFORMED, 3)]


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        ("1e400", DeadLetterCause.OUT_OF_LIMITS),
        ("9" * 5000, DeadLetterCause.OUT_OF_LIMITS),
        ("9007199254740993", DeadLetterCause.INEXACT),
        ("NaN", None),
    ],
)
def test_numbers_beside_a_text_are_judged_as_always(number: str, cause: DeadLetterCause | None) -> None:
    values, rejects = decoded(b'{"ts":%d,"values":{"a":1,"b":"x","c":%s}}' % (T, number.encode()))
    assert values[0] == 1.0
    assert [(each.cause, each.position) for each in rejects if each.position == 1] == [(MALFORMED, 1)]
    assert [each.cause for each in rejects if each.position == 2] == ([] if cause is None else [cause])


def test_the_value_of_a_bad_reading_does_not_count() -> None:
    values, rejects = decoded({"ts": T, "sensor": "a", "value": "---", "quality": "bad"})
    assert np.isnan(values).tolist() == [True]
    assert rejects == []


def test_a_field_named_as_our_own_changes_nothing() -> None:
    values, rejects = decoded({"ts": T, "faults": {"0": "x"}, "values": {"a": 1, "b": "x"}})
    assert values == [1.0]
    assert len(rejects) == 1


def test_an_unknown_sensor_keeps_its_cause() -> None:
    _, rejects = decoded({"ts": T, "values": {"firmware": "1.2.3", "a": 1}})
    assert [each.cause for each in rejects] == [DeadLetterCause.UNKNOWN_SENSOR]


def test_a_record_of_bad_values_alone_stays_small() -> None:
    record = {"ts": T, "readings": [{"sensor": "a", "value": "x"}] * 5000}
    values, rejects = decoded(record)
    assert values == []
    assert len(rejects) == 1
    assert rejects[0].count == 5000


def test_a_broken_record_changes_nothing_in_its_neighbours() -> None:
    bodies: list[object] = [{"ts": T, "sensor": "a", "value": number} for number in range(40)]
    bodies[17] = {"ts": T, "values": {"a": "x", "b": 7}}
    records = [Record(json.dumps(body).encode(), at, b"g", timestamp=T) for at, body in enumerate(bodies)]
    readings, rejects = Decoder(GroupIndex(CATALOGUE)).decode(records, now_ms=T)
    assert readings.value.tolist() == [float(at) if at != 17 else 7.0 for at in range(40)]
    assert [(each.offset, each.position) for each in rejects] == [(17, 0)]


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (b"\0\0\0\0\x2a\x02a", "not JSON: it begins like Avro of a schema registry (id 42)"),
        (b'\0\0\0\0\x2a{"a":1}', "not JSON: it begins like JSON behind the id of a schema registry (id 42)"),
        (b"Obj\1\0", "not JSON: it begins like a file of Avro"),
    ],
)
def test_a_foreign_format_is_named(value: bytes, detail: str) -> None:
    _, rejects = decoded(value)
    assert [(each.cause, each.detail) for each in rejects] == [(DeadLetterCause.UNDECODABLE, detail)]


def test_an_arrow_stream_without_its_header_is_named() -> None:
    _, rejects = decoded(arrow_stream({"a": [1.0]}))
    assert "lacks the header content-type" in rejects[0].detail


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.uint8(), pa.string())]
)
def test_an_arrow_column_of_texts_loses_the_one_that_is_no_number(kind: pa.DataType) -> None:
    texts = pa.array(["1.5", "Low", "NaN", None], pa.string()).cast(kind)
    values, rejects = decoded(arrow_stream({"a": texts, "b": [1, 2, 3, 4]}), arrow=True)
    assert values[:3] == [1.5, 1.0, 2.0]
    assert len(values) == 7
    assert [each.detail for each in rejects] == ["expected a number or null as the value of 'a', found the text 'Low'"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([True, None]),
        pa.array([[1.0], None]),
        pa.array([T, None], pa.timestamp("ms")),
        pa.array([b"1", None], pa.binary()),
    ],
)
def test_an_arrow_column_without_numbers_costs_no_other_column(column: pa.Array) -> None:
    values, rejects = decoded(arrow_stream({"a": column, "b": [1, 2]}), arrow=True)
    assert [each for each in values if not np.isnan(each)] == [1.0, 2.0]
    assert [(each.cause, each.position) for each in rejects] == [(MALFORMED, 0)]


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()])
@pytest.mark.parametrize("name", ["group", "sensor", "value"])
def test_a_null_among_unsigned_indices_is_a_null_of_its_reading(kind: pa.DataType, name: str) -> None:
    """polars writes Enum and Categorical as dictionaries with unsigned indices."""
    entry: object = 1.0 if name == "value" else "a"
    column = pa.DictionaryArray.from_arrays(pa.array([0, None], kind), pa.array([entry]))
    columns = {"group": ["a", "a"], "sensor": ["a", "a"], "value": [1.0, 2.0], name: column}
    values, rejects = decoded(arrow_stream(columns), arrow=True)
    assert values[0] == 1.0
    assert [each.position for each in rejects] == ([] if name == "value" else [1])


def of_plugin(stated: Iterable[StatedReading]) -> tuple[Decoded, ...]:
    found = list(stated)
    form = record_format("test", lambda record: True, lambda record: found)
    rejects: list[Reject] = []
    decoder = Decoder(GroupIndex(CATALOGUE))
    decoder._formats = [form]
    record = Record(b"x", 0, b"g", timestamp=T)
    assert form.parse([record], [0], GroupIndex(CATALOGUE), rejects, DEFAULT)
    return tuple(decoder.decode_parts([record], now_ms=T))


def test_a_reading_of_a_plug_in_is_rejected_alone() -> None:
    wrong: list[Any] = [
        StatedReading("a", T, "0.73"),  # type: ignore[arg-type]
        StatedReading(5, T, 1.0),  # type: ignore[arg-type]
        StatedReading("a", datetime.now(UTC), 1.0),  # type: ignore[arg-type]
        StatedReading("a", T, True),
        StatedReading("a", T, 1.0, quality=[]),  # type: ignore[arg-type]
        StatedReading("a", T, 10**400),
        StatedReading("a", T, 2**53 + 1),
    ]
    right: list[Any] = [StatedReading("b", T, Decimal("2.5")), StatedReading("b", np.int64(T), np.float32(0.5))]  # type: ignore[arg-type]
    (part,) = of_plugin([right[0], *wrong, right[1]])
    assert part.readings.value.tolist() == [2.5, 0.5]
    causes = [each.cause for each in part.rejects]
    assert causes == [MALFORMED] * 5 + [DeadLetterCause.OUT_OF_LIMITS, DeadLetterCause.INEXACT]
    assert "'0.73'" in part.rejects[0].detail
