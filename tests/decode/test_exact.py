"""Values as they came: floats bit for bit, and a dead letter for an integer that no float equals."""

import json
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.core.readings import Readings
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.decode.arrow_records import ARROW_CONTENT_TYPE
from glaim_stream.decode.decoder import Decoder
from glaim_stream.decode.exact import is_exact
from glaim_stream.decode.groups import GroupIndex
from tests.support import Record, catalogue

NOW_MS = 1_700_000_000_000
HELD = [0, 1, 2**53 - 1, 2**53, 2**53 + 2, 10**18, 2**62, 2**63, 2**64 - 2048, -(2**53), -(2**63)]
LOST = [2**53 + 1, 2**60 + 1, 2**63 - 1, 2**64 - 1, -(2**53) - 1, -(2**63) + 1]


def decode(*records: Record) -> tuple[Readings, list[Reject]]:
    return Decoder(GroupIndex(catalogue())).decode(records, now_ms=NOW_MS)


def single(value: str) -> Record:
    return Record(b'{"group":"g0","sensor":"s0","ts":0,"value":%b}' % value.encode())


def step(*values: str) -> Record:
    named = ",".join(f'"s{number}":{value}' for number, value in enumerate(values))
    return Record(b'{"group":"g0","ts":0,"values":{%b}}' % named.encode())


def items(*values: str, more: str = "") -> Record:
    listed = ",".join(f'{{"sensor":"s0","ts":{number}{more},"value":{value}}}' for number, value in enumerate(values))
    return Record(b'{"group":"g0","readings":[%b]}' % listed.encode())


def arrow(**columns: pa.Array) -> Record:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Record(sink.getvalue().to_pybytes(), headers=[("content-type", ARROW_CONTENT_TYPE)])


def long(values: pa.Array) -> Record:
    count = len(values)
    times = pa.array(range(count), pa.timestamp("ms", "UTC"))
    return arrow(group=pa.array(["g0"] * count), sensor=pa.array(["s0"] * count), ts=times, value=values)


def wide(values: pa.Array) -> Record:
    count = len(values)
    times = pa.array(range(count), pa.timestamp("ms", "UTC"))
    return arrow(group=pa.array(["g0"] * count), ts=times, s1=pa.array([1.5] * count), s0=values)


def same_bits(found: Any, expected: list[float]) -> bool:
    return np.array_equal(np.asarray(found).view(np.int64), np.array(expected, np.float64).view(np.int64))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_floats_are_decoded_bit_for_bit(values: list[float]) -> None:
    texts = [json.dumps(value) for value in values]
    stored = pa.array(values, pa.float64())
    for records in ([single(text) for text in texts], [items(*texts)], [items(*texts, more=',"x":0')], [long(stored)]):
        readings, rejects = decode(*records)
        assert rejects == []
        assert same_bits(readings.value, values)
    readings, rejects = decode(wide(stored))
    assert rejects == []
    assert same_bits(readings.value[readings.sensor == 0], values)


@pytest.mark.parametrize("value", HELD)
def test_an_integer_that_a_float_equals_is_accepted(value: int) -> None:
    readings, rejects = decode(
        single(str(value)), items(str(value)), items(str(value), more=',"x":0'), step(str(value))
    )
    assert rejects == []
    assert [int(each) for each in readings.value] == [value] * 4


@pytest.mark.parametrize("value", LOST)
@pytest.mark.parametrize("make", [single, step, items])
def test_an_integer_that_no_float_equals_is_a_dead_letter(make: Any, value: int) -> None:
    readings, (reject,) = decode(single("1"), make(str(value)), single("3"))
    assert readings.value.tolist() == [1, 3]
    assert (reject.cause, reject.position) == (DeadLetterCause.INEXACT, 0)
    assert reject.detail == (
        f"an integer of s0 that a float of 64 bits cannot hold, the nearest is {int(float(value))}"
    )


def test_the_other_readings_of_the_record_are_used() -> None:
    readings, (reject,) = decode(items("1", str(2**53 + 1), "9007199254740992", "NaN"))
    assert readings.value[:2].tolist() == [1, 2**53]
    assert (reject.cause, reject.position) == (DeadLetterCause.INEXACT, 1)
    readings, (reject,) = decode(step("1.5", str(2**53 + 1)))
    assert (readings.value.tolist(), reject.position) == ([1.5], 1)


def test_a_bad_reading_has_no_value_that_could_be_inexact() -> None:
    record = Record(b'{"group":"g0","sensor":"s0","ts":0,"value":9007199254740993,"quality":"bad"}')
    readings, rejects = decode(record)
    assert rejects == []
    assert math.isnan(readings.value[0])


@pytest.mark.parametrize("text", ["9223372036854776000", "333333333333333300", "-9223372036854776000"])
def test_the_shortest_digits_of_a_float_are_that_float(text: str) -> None:
    """JavaScript prints 2**63 as 9223372036854776000."""
    readings, rejects = decode(single(text))
    assert rejects == []
    assert same_bits(readings.value, [float(text)])


@given(st.floats(2**53, 1e21))
def test_a_float_printed_without_an_exponent_is_that_float(value: float) -> None:
    digits, _, exponent = f"{value!r}e0".replace("e+", "e").partition("e")
    whole, _, fraction = digits.partition(".")
    power = int(exponent.partition("e")[0])
    fraction = "" if fraction == "0" else fraction
    text = whole + fraction + "0" * (power - len(fraction)) if power else whole
    assert struct.pack("d", float(text)) == struct.pack("d", value)
    assert is_exact(text.encode())


@pytest.mark.parametrize("text", ["9007199254740993.0", "9.007199254740993e15", "0.1", "null", "1e400", "9" * 400])
def test_numbers_with_a_fraction_or_an_exponent_are_rounded_as_ever(text: str) -> None:
    assert is_exact(text.encode())


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
@pytest.mark.parametrize("make", [long, wide])
@pytest.mark.parametrize("encoded", [False, True])
def test_integers_in_arrow(kind: pa.DataType, make: Any, encoded: bool) -> None:
    low, high = (0, 2**64 - 1) if kind == pa.uint64() else (-(2**63), 2**63 - 1)
    held, lost = ([value for value in values if low <= value <= high] for values in (HELD, LOST))
    column = pa.array([None, *held, *lost], kind)
    readings, rejects = decode(make(column.dictionary_encode() if encoded else column))
    kept = readings.value[(readings.sensor == 0) & ~np.isnan(readings.value)]
    assert [int(each) for each in kept] == held
    assert {reject.cause for reject in rejects} == {DeadLetterCause.INEXACT}
    assert len(rejects) == len(lost)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4))
def test_json_and_arrow_agree_on_integers(values: list[int]) -> None:
    """Apart from the shortest digits of a float, which an Arrow column of integers does not hold."""
    values = [value for value in values if int(float(value)) == value or not is_exact(str(value).encode())]
    if not values:
        return
    found = []
    for record in (items(*map(str, values)), long(pa.array(values, pa.int64()))):
        readings, rejects = decode(record)
        found.append((readings.value.tolist(), [(reject.cause, reject.position) for reject in rejects]))
    assert found[0] == found[1]
