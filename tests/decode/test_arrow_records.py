"""Readings in Arrow records."""

import json
import math
import struct
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.core.budget import Budget
from glaim_stream.core.readings import Readings
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.decode.arrow_records import ARROW_CONTENT_TYPE, parse_arrow
from glaim_stream.decode.decoder import Decoder
from glaim_stream.decode.groups import GroupIndex
from tests.support import Record, catalogue, json_record

NOW_MS = 1_700_000_000_000
HEADERS = [("content-type", ARROW_CONTENT_TYPE)]


def stream(columns: dict[str, Any], compression: str | None = None, metadata: dict[str, str] | None = None) -> bytes:
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch, custom_metadata=metadata)
    return bytes(sink.getvalue().to_pybytes())


def decode(*records: Record) -> tuple[Readings, list[Reject]]:
    return Decoder(GroupIndex(catalogue())).decode(records, now_ms=NOW_MS)


def arrow(value: bytes, offset: int = 0, key: bytes | None = None) -> Record:
    return Record(value, offset, key, HEADERS)


GOOD = {"group": ["g0"], "ts": [NOW_MS], "s0": [1.0]}
LONG = stream({"group": ["g0", "g1"], "sensor": ["s0", "s1"], "ts": [NOW_MS, NOW_MS - 1], "value": [1.5, None]}, "zstd")
WIDE = stream({"ts": [NOW_MS, NOW_MS - 1], "s0": [1.0, 2.0], "s1": [None, 4]})


def test_a_long_record_is_read() -> None:
    readings, rejects = decode(arrow(LONG, 7))
    assert rejects == []
    assert (readings.offset.tolist(), readings.position.tolist()) == ([7, 7], [0, 1])
    assert readings.event_time_ms.tolist() == [NOW_MS, NOW_MS - 1]
    assert readings.value[0] == 1.5
    assert math.isnan(readings.value[1])


def test_a_wide_record_takes_its_group_from_the_key() -> None:
    readings, rejects = decode(arrow(WIDE, key=b"g0"))
    assert rejects == []
    assert readings.sensor.tolist() == [0, 1, 0, 1]
    assert readings.position.tolist() == [0, 1, 2, 3]
    assert np.array_equal(readings.value, np.array([1, np.nan, 2, 4], np.float64), equal_nan=True)


def test_dictionaries_timestamps_integers_and_qualities_are_read() -> None:
    moment = datetime.fromtimestamp(NOW_MS / 1000, UTC)
    readings, rejects = decode(
        arrow(
            stream(
                {
                    "group": pa.array(["g0", "g0"]).dictionary_encode(),
                    "sensor": pa.array(["s0", "s1"]).dictionary_encode(),
                    "ts": pa.array([moment, moment], pa.timestamp("us", "Europe/Berlin")),
                    "value": pa.array([1, 2], pa.int16()),
                    "quality": ["good", "bad"],
                }
            )
        )
    )
    assert rejects == []
    assert readings.event_time_ms.tolist() == [NOW_MS, NOW_MS]
    assert np.array_equal(readings.value, np.array([1, np.nan], np.float64), equal_nan=True)


@pytest.mark.parametrize(
    "qualities",
    [
        pa.array(["Good", "Uncertain_SubNormal", "BadSensorFailure", None]),
        pa.array(["good", "uncertain", "bad", None]).dictionary_encode(),
        pa.array([0, 0x408F0000, 0x808C0000, None], pa.uint32()),
        pa.array([0, 0x408F0000, 0x808C0000 - 2**32, None], pa.int32()),
    ],
)
def test_qualities_are_names_or_status_codes(qualities: pa.Array) -> None:
    count = len(qualities)
    columns = {"group": ["g0"] * count, "sensor": ["s0"] * count, "ts": [NOW_MS] * count, "value": [1.0] * count}
    readings, rejects = decode(arrow(stream(columns | {"quality": qualities})))
    assert rejects == []
    assert readings.quality.tolist() == [0, 1, 2, 0]
    assert np.array_equal(readings.value, [1, 1, np.nan, 1], equal_nan=True)


def with_offsets(count: int, offsets: tuple[int, ...]) -> bytes:
    """A long record of `count` readings with the given offsets into its group names."""
    whole = stream({"group": ["g0"] * count, "sensor": ["s0"] * count, "ts": [NOW_MS] * count, "value": [1.0] * count})
    valid = struct.pack(f"<{count + 1}i", *range(0, 2 * count + 1, 2))
    assert whole.count(valid) == 2, "the offsets of group and sensor"
    return whole.replace(valid, struct.pack(f"<{count + 1}i", *offsets), 1)


DECODE_STDIN = """
import sys
from glaim_stream.decode.decoder import Decoder
from glaim_stream.decode.groups import GroupIndex
from tests.decode.test_arrow_records import NOW_MS, arrow
from tests.support import catalogue
readings, rejects = Decoder(GroupIndex(catalogue())).decode([arrow(sys.stdin.buffer.read())], now_ms=NOW_MS)
print(len(readings), *(reject.cause for reject in rejects))
"""


@pytest.mark.parametrize("offsets", [(0, 2**30, 4, 6), (0, 4, 2, 6), (0, -8, 4, 6)])
def test_string_offsets_outside_their_buffer_are_rejected(offsets: tuple[int, ...]) -> None:
    """Reading such a column without full validation crashes the process, so the test runs in a subprocess."""
    done = subprocess.run([sys.executable, "-c", DECODE_STDIN], input=with_offsets(3, offsets), capture_output=True)
    assert (done.returncode, done.stdout.decode()) == (0, "0 undecodable\n"), done.stderr.decode()


def test_names_that_are_not_utf8_are_rejected() -> None:
    whole = stream({"group": ["g0"], "sensor": ["zz"], "ts": [NOW_MS], "value": [1.0]})
    assert whole.count(b"zz") == 1
    _, (reject,) = decode(arrow(whole.replace(b"zz", b"\xff\xfe")))
    assert reject.cause is DeadLetterCause.UNDECODABLE


def test_records_of_one_schema_keep_their_offsets_groups_and_values() -> None:
    first = stream({"ts": [NOW_MS - 3], "s0": [1.0], "s1": [2.0]})
    second = stream({"ts": [NOW_MS - 2, NOW_MS - 1], "s0": [3.0, 4.0], "s1": [5.0, None]})
    readings, rejects = decode(arrow(first, 5, b"g1"), arrow(second, 8, b"g0"))
    assert rejects == []
    assert readings.offset.tolist() == [5, 5, 8, 8, 8, 8]
    assert readings.position.tolist() == [0, 1, 0, 1, 2, 3]
    assert readings.group.tolist() == [0, 0, 1, 1, 1, 1]
    assert readings.sensor.tolist() == [0, 1, 0, 1, 0, 1]
    assert (readings.event_time_ms - NOW_MS).tolist() == [-3, -3, -2, -2, -1, -1]
    assert np.array_equal(readings.value, [1, 2, 3, 5, 4, np.nan], equal_nan=True)


def test_a_null_of_one_sensor_does_not_affect_other_sensors() -> None:
    """
    s0   1     .     .
    s1   .     2     .
    s2   .     .     3
    """
    columns = {
        "s0": pa.array([1, None, None], pa.int32()),
        "s1": pa.array([None, 2.5, None], pa.float32()),
        "s2": pa.array([None, None, 3.5], pa.float64()),
    }
    whole = stream({"group": ["g0"] * 3, "ts": [NOW_MS] * 3, **columns})
    readings, rejects = Decoder(GroupIndex(catalogue(sensors=3))).decode([arrow(whole)], now_ms=NOW_MS)
    assert rejects == []
    assert readings.sensor.tolist() == [0, 1, 2] * 3
    assert np.array_equal(readings.value, [1, *[np.nan] * 3, 2.5, *[np.nan] * 3, 3.5], equal_nan=True)
    assert readings.quality.tolist() == [0, 2, 2, 2, 0, 2, 2, 2, 0]


@pytest.mark.parametrize("encoded", [False, True])
def test_a_reading_without_a_group_or_sensor_is_rejected(*, encoded: bool) -> None:
    group, sensor = pa.array(["g0", None, "g0", "g1"]), pa.array(["s0", "s1", None, "s1"])
    if encoded:
        group, sensor = group.dictionary_encode(), sensor.dictionary_encode()
    whole = stream({"group": group, "sensor": sensor, "ts": [NOW_MS] * 4, "value": [1.0, 2.0, 3.0, 4.0]})
    readings, rejects = decode(arrow(whole, 7, b"g5"))
    assert (readings.position.tolist(), readings.value.tolist()) == ([0, 3], [1, 4])
    assert (readings.group.tolist(), readings.sensor.tolist()) == ([0, 1], [0, 1])
    assert [(each.position, each.cause, each.detail) for each in rejects] == [
        (1, DeadLetterCause.MALFORMED, "no group, neither in the record nor as its key"),
        (2, DeadLetterCause.MALFORMED, "no sensor"),
    ]


def test_reject_details_name_the_sensor_or_the_time_of_a_wide_record() -> None:
    columns = {"ts": pa.array([NOW_MS, None], pa.int64()), "s0": [1.0, 2.0], "x": [3.0, 4.0], "s1": [5.0, 6.0]}
    readings, rejects = decode(arrow(stream({"group": ["g0", "g1"], **columns}), 7))
    assert (readings.position.tolist(), readings.value.tolist()) == ([0, 2], [1, 5])
    expected_time = "expected epoch milliseconds or ISO 8601 with a zone, found None"
    assert [(each.position, each.detail) for each in rejects] == [
        (1, "sensor 'x' is not one of group 'g0'"),
        (3, expected_time),
        (4, "sensor 'x' is not one of group 'g1'"),
        (5, expected_time),
    ]


def test_reject_details_name_the_key_or_the_time_of_a_record() -> None:
    known = stream({"ts": [NOW_MS + 10**6], "s0": [1.0]})
    _, rejects = decode(arrow(known, 1, b"elsewhere"), arrow(known, 2, b"g0"))
    assert [(each.offset, each.detail) for each in rejects] == [
        (1, "group 'elsewhere' is not in the catalogue"),
        (2, f"{NOW_MS + 10**6} is too far ahead of when it was produced"),
    ]


def test_other_headers_may_surround_the_content_type() -> None:
    around: list[tuple[str, bytes]] = [("trace", b"1"), *HEADERS, ("content-encoding", b"")]
    readings, rejects = decode(Record(WIDE, 3, b"g0", around))
    assert (len(readings), rejects) == (4, [])


@pytest.mark.parametrize("header", [("content-type", b"application/json"), ("accept", ARROW_CONTENT_TYPE)])
def test_a_record_of_another_content_type_is_read_as_json(header: tuple[str, bytes]) -> None:
    document = json.dumps({"group": "g0", "sensor": "s0", "ts": NOW_MS, "value": 1}).encode()
    readings, rejects = decode(Record(document, 0, None, [header]))
    assert (len(readings), rejects) == (1, [])


def test_records_of_one_schema_are_parsed_together() -> None:
    empty = stream({"ts": pa.array([], pa.int64()), "s0": pa.array([], pa.float64())})
    records = [arrow(b"", 10), arrow(WIDE, 11, b"g0"), arrow(empty, 12), arrow(LONG, 13), arrow(WIDE, 14, b"g1")]
    rejects: list[Reject] = []
    parts = parse_arrow(records, range(5), GroupIndex(catalogue()), rejects)
    assert [part.record.tolist() for part in parts] == [[1] * 4 + [4] * 4, [3, 3]]
    assert [reject.offset for reject in rejects] == [10, 12]


def test_an_unreadable_record_does_not_affect_others_with_the_same_schema() -> None:
    good, bad = (stream({"ts": [NOW_MS], "s0": [text]}) for text in ("1.5", "wrong"))
    readings, (reject,) = decode(arrow(good, 1, b"g0"), arrow(bad, 2, b"g0"), arrow(good, 3, b"g1"))
    assert (readings.offset.tolist(), readings.value.tolist()) == ([1, 3], [1.5, 1.5])
    assert (reject.offset, reject.cause) == (2, DeadLetterCause.MALFORMED)
    assert reject.detail == "expected a number or null as the value of 's0', found the text 'wrong'"


@pytest.mark.parametrize("rows", [2, 3])
def test_the_number_of_readings_of_a_record_is_limited(rows: int) -> None:
    record = arrow(stream({"ts": [NOW_MS] * rows, "s0": [1.0] * rows, "s1": [1.0] * rows}), 0, b"g0")
    decoder = Decoder(GroupIndex(catalogue()), Budget(record_readings=4))
    readings, rejects = decoder.decode([record], now_ms=NOW_MS)
    assert len(readings) == (4 if rows == 2 else 0)
    found = ["expected at most 4 readings in one record, found 6"] if rows == 3 else []
    assert [reject.detail for reject in rejects] == found


@pytest.mark.parametrize(("rows", "causes"), [(250_000, []), (250_001, [DeadLetterCause.TOO_LARGE])])
def test_a_record_of_250_000_readings_is_read_and_a_larger_one_is_not(rows: int, causes: list[DeadLetterCause]) -> None:
    record = {"ts": pa.repeat(NOW_MS, rows), "sensor": pa.repeat("s0", rows), "value": pa.repeat(1.0, rows)}
    readings, rejects = decode(arrow(stream({**record, "group": pa.repeat("g0", rows)}, "zstd")))
    assert [reject.cause for reject in rejects] == causes
    assert len(readings) == (0 if causes else rows)


@pytest.mark.parametrize("type_", [pa.large_string(), pa.dictionary(pa.int8(), pa.large_string())])
def test_names_may_have_any_text_type(type_: pa.DataType) -> None:
    whole = stream({"group": pa.array(["g0", "g1"]).cast(type_), "sensor": pa.array(["s1", "s0"]).cast(type_),
                    "ts": [NOW_MS] * 2, "value": [1.0, 2.0]})  # fmt: skip
    readings, rejects = decode(arrow(whole))
    assert rejects == []
    assert (readings.group.tolist(), readings.sensor.tolist()) == ([0, 1], [1, 0])


def test_numbers_may_be_names() -> None:
    rules = catalogue(sensors=[{"id": "70"}, {"id": "71"}])
    whole = stream({"sensor": [71, 70], "ts": [NOW_MS] * 2, "value": [1.0, 2.0]})
    readings, rejects = Decoder(GroupIndex(rules)).decode([arrow(whole, 0, b"g0")], now_ms=NOW_MS)
    assert (readings.sensor.tolist(), rejects) == ([1, 0], [])


def test_dictionaries_that_differ_between_records_are_unified() -> None:
    def encoded(*names: str) -> bytes:
        sensor = pa.array(names).dictionary_encode()
        return stream({"sensor": sensor, "ts": [NOW_MS] * len(names), "value": [1.0] * len(names)})

    readings, rejects = decode(arrow(encoded("s1", "s0"), 0, b"g0"), arrow(encoded("s0", "s1"), 1, b"g0"))
    assert rejects == []
    assert readings.sensor.tolist() == [1, 0, 0, 1]


def test_times_below_a_millisecond_are_rounded_down() -> None:
    stamps = pa.array([NOW_MS * 1000 + 999, NOW_MS * 1000 + 1000], pa.timestamp("us", "UTC"))
    readings, rejects = decode(arrow(stream({"ts": stamps, "s0": [1.0, 2.0]}), 0, b"g0"))
    assert rejects == []
    assert (readings.event_time_ms - NOW_MS).tolist() == [0, 1]


def test_value_and_quality_are_sensor_names_in_a_record_without_a_sensor_column() -> None:
    rules = catalogue(sensors=[{"id": "value"}, {"id": "quality"}])
    whole = stream({"group": ["g0"], "ts": [NOW_MS], "value": [1.5], "quality": [2.5]})
    readings, rejects = Decoder(GroupIndex(rules)).decode([arrow(whole)], now_ms=NOW_MS)
    assert rejects == []
    assert (readings.sensor.tolist(), readings.value.tolist(), readings.quality.tolist()) == (
        [0, 1],
        [1.5, 2.5],
        [0, 0],
    )


def test_arrow_and_json_records_keep_their_order() -> None:
    reading = {"group": "g0", "sensor": "s0", "ts": NOW_MS, "value": 1}
    records = [json_record(0, **reading), arrow(LONG, 1), json_record(2, **reading), arrow(WIDE, 3, b"g0")]
    readings, _ = decode(*records)
    assert readings.offset.tolist() == [0, 1, 1, 2, 3, 3, 3, 3]


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (b"", DeadLetterCause.UNDECODABLE),
        (b"not arrow", DeadLetterCause.UNDECODABLE),
        (LONG[: len(LONG) // 2], DeadLetterCause.UNDECODABLE),
        (stream({"group": ["g0"], "sensor": ["s0"], "value": [1.0]}), DeadLetterCause.UNDECODABLE),
        (stream({"ts": [datetime(2020, 1, 1)], "s0": [1.0]}), DeadLetterCause.UNDECODABLE),
        (stream({"ts": [NOW_MS], "s0": [b"\xff"]}), DeadLetterCause.MALFORMED),
        (stream({"ts": [[NOW_MS]], "s0": [1.0]}), DeadLetterCause.UNDECODABLE),
        # As Arrow 0.17 marked what it had compressed: the lengths do not tell what it unpacks to.
        (stream(GOOD, metadata={"ARROW:experimental_compression": "zstd"}), DeadLetterCause.UNDECODABLE),
        (stream({"ts": pa.nulls(10**6), "s0": pa.nulls(10**6), "s1": pa.nulls(10**6)}), DeadLetterCause.TOO_LARGE),
        (stream({"ts": pa.array([], pa.int64()), "s0": pa.array([], pa.float64())}), DeadLetterCause.MALFORMED),
        (stream({"ts": [NOW_MS]}), DeadLetterCause.MALFORMED),
        (stream({"group": ["g0"], "ts": [NOW_MS]}), DeadLetterCause.MALFORMED),
        (stream({"ts": [NOW_MS], "s0": [1.0]}), DeadLetterCause.MALFORMED),  # no group anywhere
        (stream({"group": ["g0"], "ts": [NOW_MS], "x": [1.0]}), DeadLetterCause.UNKNOWN_SENSOR),
        (stream({"group": ["g0"], "ts": pa.array([None], pa.int64()), "s0": [1.0]}), DeadLetterCause.BAD_TIME),
    ],
)
def test_an_unusable_stream_is_rejected(value: bytes, cause: DeadLetterCause) -> None:
    readings, rejects = decode(arrow(value, 5))
    assert len(readings) == 0
    assert {(reject.offset, reject.cause) for reject in rejects} == {(5, cause)}


def test_a_huge_column_of_nulls_is_rejected_before_it_fills_the_memory() -> None:
    _, rejects = decode(arrow(stream({"ts": pa.nulls(10**12 // 10**3), "s0": pa.nulls(10**9)})))
    assert "at most" in rejects[0].detail


@given(st.sampled_from([LONG, WIDE]), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=8))
def test_no_mutated_stream_raises_or_affects_other_records(base: bytes, changes: list[tuple[int, int]]) -> None:
    mutated = bytearray(base)
    for place, byte in changes:
        mutated[place % len(mutated)] = byte
    good = json_record(9, group="g0", sensor="s0", ts=NOW_MS, value=1)
    readings, rejects = decode(arrow(bytes(mutated), 3, b"g0"), good)
    assert readings.offset.tolist()[-1] == 9
    assert {*readings.offset.tolist(), *(reject.offset for reject in rejects)} == {3, 9}


@given(st.binary(max_size=200))
def test_no_bytes_raise(value: bytes) -> None:
    readings, rejects = decode(arrow(value))
    assert len(readings) == 0
    assert rejects


def test_records_with_the_same_columns_and_other_contents_are_parsed_together() -> None:
    records = [arrow(stream({"ts": [NOW_MS] * rows, "s0": [float(rows)] * rows}), rows, b"g0") for rows in (1, 2, 40)]
    other = arrow(stream({"ts": [NOW_MS], "s1": [1.0]}), 50, b"g0")
    rejects: list[Reject] = []
    parts = parse_arrow([*records, other], range(4), GroupIndex(catalogue()), rejects)
    assert [part.record.tolist() for part in parts] == [[0] + [1] * 2 + [2] * 40, [3]]
    assert rejects == []
