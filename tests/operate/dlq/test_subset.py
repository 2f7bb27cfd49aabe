"""Copies of a record with some of its readings keep the digits."""

import json

import pyarrow as pa
import pytest

from glaim_stream.decode import ARROW_CONTENT_TYPE
from glaim_stream.decode.arrow_streams import read_claimed
from glaim_stream.operate.dlq.subset import keep_readings

ARROW = [("content-type", ARROW_CONTENT_TYPE)]


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("values", [[2**53 + 1, 2**63 - 1], [-0.0, 123_456_789.12]])
def test_a_wide_row_keeps_integers_and_floats_as_they_are(values: list[float]) -> None:
    times = pa.array([0, 60_000], pa.timestamp("ms", "UTC"))
    table = pa.table({"group": ["g0", "g0"], "ts": times, "a": values, "b": values})
    kept = read_claimed(keep_readings(stream(table), ARROW, [0, 3]))
    assert [repr(value) for value in kept["value"].to_pylist()] == [repr(values[0]), repr(values[1])]
    assert kept["sensor"].to_pylist() == ["a", "b"]


def test_a_wide_row_of_several_types_has_floats() -> None:
    table = pa.table({"group": ["g0"], "ts": pa.array([0], pa.timestamp("ms", "UTC")), "a": [1], "b": [0.5], "c": [2]})
    assert read_claimed(keep_readings(stream(table), ARROW, [0, 1]))["value"].to_pylist() == [1.0, 0.5]


def test_json_keeps_its_digits() -> None:
    record = b'{"group":"g0","ts":0,"values":{"a":9007199254740993,"b":-0.0,"c":123456789.12}}'
    kept = json.loads(keep_readings(record, [], [0, 1]))
    assert repr(kept["values"]) == "{'a': 9007199254740993, 'b': -0.0}"
