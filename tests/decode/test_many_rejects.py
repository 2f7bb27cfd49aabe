"""Records of a thousand bytes with hundreds of thousands of unusable readings: letters of bounded size, soon made."""

import time

import numpy as np
import pyarrow as pa

from glaim_stream.core.budget import DEFAULT
from glaim_stream.core.rejects import DeadLetterCause
from glaim_stream.decode.arrow_records import ARROW_CONTENT_TYPE
from glaim_stream.decode.dead_letters import dead_letters
from glaim_stream.decode.decoder import Decoder
from glaim_stream.decode.groups import GroupIndex
from glaim_stream.imputers import LastValue
from glaim_stream.operate.dlq import Letter
from glaim_stream.operate.dlq.letters import read_letter
from glaim_stream.operate.dlq.subset import keep_readings
from glaim_stream.pipeline import Pipeline
from tests.support import Record, catalogue

ARROW = [("content-type", ARROW_CONTENT_TYPE)]
COUNT = DEFAULT.record_readings
NOW_MS = 1_700_000_000_000
MAX_HEADER_BYTES = 16_000


class Stored(Record):
    """A record with a partition, as a consumer gives it."""

    partition = 0


def packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue().to_pybytes())


def letters_from(pipeline: Pipeline, *records: Record) -> list[Letter]:
    windows = pipeline.windows()
    rejects = [
        reject for record in records for reject in pipeline.apply(windows, [record], now_ms=record.timestamp).rejects
    ]
    found = []
    for letter in dead_letters(records, rejects, topic="in", partition=0):
        assert sum(len(name) + len(text) for name, text in letter.headers) < MAX_HEADER_BYTES
        read = read_letter(Stored(letter.value, len(found), letter.key, letter.headers, 99))
        assert read is not None
        found.append(read)
    return found


def long_table(sensors: pa.Array) -> pa.Table:
    return pa.table(
        {
            "sensor": sensors,
            "ts": pa.array(np.full(COUNT, NOW_MS)),
            "value": pa.array(np.zeros(COUNT)),
        }
    )


def test_a_small_message_of_many_unknown_readings_is_one_bounded_letter() -> None:
    value = packed(long_table(pa.DictionaryArray.from_arrays(pa.array(np.zeros(COUNT, np.int8)), ["who"])))
    assert len(value) < 10_000
    pipeline = Pipeline(catalogue(), {}, LastValue())
    start_s = time.process_time()
    (letter,) = letters_from(pipeline, Record(value, 5, b"g1", ARROW, NOW_MS))
    assert time.process_time() - start_s < 5  # some 0.3 s; 20 s with an object and a detail for each reading
    assert (letter.cause, letter.positions) == ("unknown-sensor", list(range(COUNT)))
    assert keep_readings(value, ARROW, letter.positions) == value


def test_a_requeue_of_a_letter_in_several_parts_sends_each_rejected_reading_once() -> None:
    known = np.random.default_rng(3).random(COUNT) < 0.5
    value = packed(long_table(pa.DictionaryArray.from_arrays(pa.array(known.astype(np.int8)), ["who", "s0"])))
    letters = letters_from(Pipeline(catalogue(), {}, LastValue()), Record(value, 5, b"g1", ARROW, NOW_MS))
    assert len(letters) > 1
    positions = [position for letter in letters for position in letter.positions or ()]
    assert positions == np.flatnonzero(~known).tolist()
    sensors: list[str] = []
    for letter in letters:
        assert letter.positions is not None
        with pa.ipc.open_stream(keep_readings(value, ARROW, letter.positions)) as reader:
            sensors += reader.read_all()["sensor"].to_pylist()
    assert sensors == ["who"] * int((~known).sum())


def test_a_late_backfill_of_an_hour_is_bounded_letters_with_the_least_and_greatest_lateness() -> None:
    rows, width = 3_600, 11
    pipeline = Pipeline(catalogue(sensors=width, max_ahead_s=1), {}, LastValue())
    late_ms = NOW_MS - 7_200_000 + np.arange(rows) * 1000
    columns = {"group": ["g1"] * rows, "ts": late_ms, **{f"s{each}": np.arange(rows) * 1.5 for each in range(width)}}
    value = packed(pa.table(columns))
    now = b'{"group": "g1", "sensor": "s0", "ts": %d, "value": 1}' % NOW_MS
    (letter,) = letters_from(pipeline, Record(now, 4, None, [], NOW_MS), Record(value, 5, None, ARROW, NOW_MS))
    assert (letter.cause, letter.offset) == ("too-late", 5)
    assert letter.positions == list(range(rows * width))
    newest, oldest = 3_601_000, 7_200_000
    assert abs(letter.late_by_ms[0] - newest) <= 5_000
    assert abs(letter.late_by_ms[1] - oldest) <= 5_000


def test_the_causes_of_many_readings_are_counted_apart() -> None:
    text = b",".join(
        b'{"sensor": "%s", "ts": %d, "value": %d}' % (sensor, ts, value)
        for sensor, ts, value in [(b"s0", NOW_MS, 99), (b"who", NOW_MS, 1), (b"s0", 10**14, 1), (b"s0", NOW_MS, 1)] * 50
    )
    decoder = Decoder(GroupIndex(catalogue(sensors=[{"id": "s0", "max": 50}])))
    record = Record(b'{"group": "g1", "readings": [' + text + b"]}", 5, None, [], NOW_MS)
    readings, rejects = decoder.decode([record], now_ms=NOW_MS)
    assert len(readings) == 50
    assert [(each.cause, each.count) for each in rejects] == [
        (DeadLetterCause.OUT_OF_LIMITS, 50),
        (DeadLetterCause.UNKNOWN_SENSOR, 50),
        (DeadLetterCause.BAD_TIME, 50),
    ]
    assert rejects[1].positions.tolist() == list(range(1, 200, 4))
