"""Readings that come as Arrow."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.decode.arrow_records import ARROW_CONTENT_TYPE
from glaim_stream.decode.dead_letters import DeadLetterCause, Reject
from glaim_stream.decode.decoder import Decoder
from glaim_stream.decode.groups import GroupIndex
from glaim_stream.decode.readings import Readings
from tests.support import Record, catalogue, json_record

NOW_MS = 1_700_000_000_000
HEADERS = [("content-type", ARROW_CONTENT_TYPE)]


def stream(columns: dict[str, Any], compression: str | None = None) -> bytes:
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def decode(*records: Record) -> tuple[Readings, list[Reject]]:
    return Decoder(GroupIndex(catalogue())).decode(records, now_ms=NOW_MS)


def arrow(value: bytes, offset: int = 0, key: bytes | None = None) -> Record:
    return Record(value, offset, key, HEADERS)


LONG = stream({"group": ["g0", "g1"], "sensor": ["s0", "s1"], "ts": [NOW_MS, NOW_MS - 1], "value": [1.5, None]}, "zstd")
WIDE = stream({"ts": [NOW_MS, NOW_MS - 1], "s0": [1.0, 2.0], "s1": [None, 4]})


def test_long() -> None:
    readings, rejects = decode(arrow(LONG, 7))
    assert rejects == []
    assert (readings.offset.tolist(), readings.position.tolist()) == ([7, 7], [0, 1])
    assert readings.event_time_ms.tolist() == [NOW_MS, NOW_MS - 1]
    assert readings.value[0] == 1.5
    assert math.isnan(readings.value[1])


def test_wide_takes_its_group_from_the_key() -> None:
    readings, rejects = decode(arrow(WIDE, key=b"g0"))
    assert rejects == []
    assert readings.sensor.tolist() == [0, 1, 0, 1]
    assert readings.position.tolist() == [0, 1, 2, 3]
    assert np.array_equal(readings.value, np.array([1, np.nan, 2, 4], np.float32), equal_nan=True)


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
    assert np.array_equal(readings.value, np.array([1, np.nan], np.float32), equal_nan=True)


@pytest.mark.parametrize(
    "qualities",
    [
        pa.array(["Good", "Uncertain_SubNormal", "BadSensorFailure", None]),
        pa.array(["good", "uncertain", "bad", None]).dictionary_encode(),
        pa.array([0, 0x408F0000, 0x808C0000, None], pa.uint32()),
        pa.array([0, 0x408F0000, 0x808C0000 - 2**32, None], pa.int32()),
    ],
)
def test_qualities_are_words_or_status_codes(qualities: pa.Array) -> None:
    count = len(qualities)
    columns = {"group": ["g0"] * count, "sensor": ["s0"] * count, "ts": [NOW_MS] * count, "value": [1.0] * count}
    readings, rejects = decode(arrow(stream(columns | {"quality": qualities})))
    assert rejects == []
    assert readings.quality.tolist() == [0, 1, 2, 0]
    assert np.array_equal(readings.value, [1, 1, np.nan, 1], equal_nan=True)


def test_arrow_and_json_keep_their_order() -> None:
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
        (stream({"ts": [NOW_MS], "s0": [b"\xff"]}), DeadLetterCause.UNDECODABLE),
        (stream({"ts": [[NOW_MS]], "s0": [1.0]}), DeadLetterCause.UNDECODABLE),
        (stream({"ts": pa.nulls(10**6), "s0": pa.nulls(10**6), "s1": pa.nulls(10**6)}), DeadLetterCause.UNDECODABLE),
        (stream({"ts": pa.array([], pa.int64()), "s0": pa.array([], pa.float64())}), DeadLetterCause.MALFORMED),
        (stream({"ts": [NOW_MS]}), DeadLetterCause.MALFORMED),
        (stream({"ts": [NOW_MS], "s0": [1.0]}), DeadLetterCause.MALFORMED),  # no group anywhere
        (stream({"group": ["g0"], "ts": [NOW_MS], "x": [1.0]}), DeadLetterCause.UNKNOWN_SENSOR),
        (stream({"group": ["g0"], "ts": pa.array([None], pa.int64()), "s0": [1.0]}), DeadLetterCause.BAD_TIME),
    ],
)
def test_a_stream_that_cannot_be_used_is_set_aside(value: bytes, cause: DeadLetterCause) -> None:
    readings, rejects = decode(arrow(value, 5))
    assert len(readings) == 0
    assert {(reject.offset, reject.cause) for reject in rejects} == {(5, cause)}


def test_a_value_beyond_a_column_of_nulls_does_not_fill_the_memory() -> None:
    _, rejects = decode(arrow(stream({"ts": pa.nulls(10**12 // 10**3), "s0": pa.nulls(10**9)})))
    assert "at most" in rejects[0].detail


@given(st.sampled_from([LONG, WIDE]), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=8))
def test_no_mutated_stream_raises_or_disturbs_its_neighbours(base: bytes, changes: list[tuple[int, int]]) -> None:
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
