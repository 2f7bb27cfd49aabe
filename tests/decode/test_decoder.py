"""The decoder from bytes to columns: nothing raises, nothing is lost, and the fast and the slow path agree."""

import json
import math
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.readings import Readings
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.decode import json_records as module
from glaim_stream.decode.decoder import Decoder
from glaim_stream.decode.groups import GroupIndex
from tests.support import Record, catalogue, json_record

NOW_MS = 1_700_000_000_000
LIMITED = [{"id": "s0", "min": -10, "max": 10}, {"id": "s1"}]
Key = tuple[int, int]


def decode(*records: Record, rules: Catalogue | None = None) -> tuple[Readings, list[Reject]]:
    return Decoder(GroupIndex(rules or catalogue())).decode(records, now_ms=NOW_MS)


def keys(readings: Readings) -> list[Key]:
    return list(zip(readings.offset.tolist(), readings.position.tolist(), strict=True))


def single(**fields: Any) -> dict[str, Any]:
    return {"group": "g0", "sensor": "s0", "ts": NOW_MS, "value": 1.5} | fields


# The three shapes


def test_a_record_of_one_reading_is_read() -> None:
    readings, rejects = decode(json_record(7, **single()))
    assert rejects == []
    assert (keys(readings), readings.event_time_ms.tolist(), readings.value.tolist()) == ([(7, 0)], [NOW_MS], [1.5])
    assert (readings.value.dtype, readings.event_time_ms.dtype) == (np.float64, np.int64)


def test_a_record_of_one_step_is_read() -> None:
    readings, rejects = decode(json_record(7, group="g0", ts=NOW_MS, values={"s0": 1, "s1": None}))
    assert rejects == []
    assert keys(readings) == [(7, 0), (7, 1)]
    assert readings.value[0] == 1
    assert math.isnan(readings.value[1])


def test_readings_of_a_batch_may_override_its_group_and_time() -> None:
    items = [{"sensor": "s0", "value": 1}, {"sensor": "s1", "value": 2, "ts": NOW_MS - 1, "group": "g1"}]
    readings, rejects = decode(json_record(7, group="g0", ts=NOW_MS, readings=items))
    assert rejects == []
    assert readings.event_time_ms.tolist() == [NOW_MS, NOW_MS - 1]
    assert readings.group.tolist() == [0, 1]


def test_the_key_is_the_group_of_a_record_without_a_group() -> None:
    document = single()
    del document["group"]
    readings, _ = decode(json_record(7, key=b"g5", **document))
    assert len(readings) == 1
    readings, (reject,) = decode(json_record(7, key=b"\xff", **document))
    assert len(readings) == 0
    assert (reject.cause, reject.detail) == (
        DeadLetterCause.MALFORMED,
        "no group, neither in the record nor as its key",
    )


@pytest.mark.parametrize(
    "ts", ["2023-11-14T22:13:20Z", "2023-11-14T23:13:20+01:00", "2023-11-14 22:13:20+00:00", NOW_MS, NOW_MS + 0.5]
)
def test_valid_times_are_read(ts: object) -> None:
    assert decode(json_record(**single(ts=ts)))[0].event_time_ms.tolist() == [NOW_MS]


def test_numeric_and_text_times_may_be_mixed() -> None:
    readings, rejects = decode(
        json_record(0, **single()),
        json_record(1, **single(ts="2023-11-14T22:13:20Z")),
        json_record(2, **single(ts=None)),
    )
    assert readings.event_time_ms.tolist() == [NOW_MS, NOW_MS]
    assert [reject.cause for reject in rejects] == [DeadLetterCause.BAD_TIME]


SHAPES: list[Callable[[object], dict[str, Any]]] = [
    lambda quality: single(quality=quality),
    lambda quality: {"group": "g0", "ts": NOW_MS, "values": {"s0": 1.5}, "quality": quality},
    lambda quality: {"group": "g0", "readings": [{"sensor": "s0", "ts": NOW_MS, "value": 1.5, "quality": quality}]},
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("quality", "code"), [("bad", 2), ("UncertainInitialValue", 1), (0x40000000, 1), (0x80000000, 2), (0, 0), ("", 0)]
)
def test_a_quality_is_kept_and_only_a_bad_one_removes_the_value(
    quality: object, code: int, shape: Callable[[object], dict[str, Any]]
) -> None:
    good = json_record(1, **single())
    readings, rejects = decode(json_record(0, **shape(quality)), good)
    assert rejects == []
    assert readings.quality.tolist() == [code, 0]
    assert np.array_equal(readings.value, [np.nan if code == 2 else 1.5, 1.5], equal_nan=True)


def test_a_bad_value_out_of_limits_is_a_dropout_and_no_error() -> None:
    readings, rejects = decode(json_record(**single(value=99, quality="bad")), rules=catalogue(sensors=LIMITED))
    assert (rejects, readings.quality.tolist()) == ([], [2])


def test_readings_have_the_time_of_their_record_or_else_the_wall_clock_time() -> None:
    step = json.dumps({"group": "g0", "ts": 0, "values": {"s0": 1, "s1": 2}}).encode()
    records = [Record(step, 0, timestamp=5), Record(step, 1, timestamp=-1), Record(step, 2, timestamp=7)]
    readings, _ = decode(*records)
    assert readings.produced_ms.tolist() == [5, 5, NOW_MS, NOW_MS, 7, 7]


@pytest.mark.parametrize("text", ["null", "NaN"])
def test_null_and_nan_are_dropouts(text: str) -> None:
    readings, rejects = decode(Record(f'{{"group":"g0","sensor":"s0","ts":{NOW_MS},"value":{text}}}'.encode()))
    assert (len(rejects), math.isnan(readings.value[0]), readings.quality.tolist()) == (0, True, [2])


# Rejects


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (None, DeadLetterCause.UNDECODABLE),
        (b"", DeadLetterCause.UNDECODABLE),
        (b" ", DeadLetterCause.UNDECODABLE),
        (b"\xff\xfe", DeadLetterCause.UNDECODABLE),
        (b'{"group":', DeadLetterCause.UNDECODABLE),
        (b'{"else":' + b"[" * 100_000, DeadLetterCause.UNDECODABLE),
        (b'{"group":"g0","sensor":"\\ud800","ts":0,"value":1}', DeadLetterCause.UNDECODABLE),
        (b'{"group":"g\\ud800","sensor":"s0","ts":0,"value":NaN}', DeadLetterCause.UNDECODABLE),
        (b"null", DeadLetterCause.MALFORMED),
        (b"[]", DeadLetterCause.MALFORMED),
        (b"{}", DeadLetterCause.MALFORMED),
        (b'{"group":"g0","ts":0,"values":{}}', DeadLetterCause.MALFORMED),
        (b'{"group":"g0","ts":0,"readings":[]}', DeadLetterCause.MALFORMED),
        (b'{"group":"g0","sensor":"s0","ts":0,"value":"1"}', DeadLetterCause.MALFORMED),
        (b'{"group":"g0","sensor":"s0","ts":true,"value":1}', DeadLetterCause.MALFORMED),
        (b'{"group":"g0","sensor":"s0","values":{"s0":1},"ts":0}', DeadLetterCause.MALFORMED),
        (b'{"group":"x","sensor":"s0","ts":0,"value":1}', DeadLetterCause.UNKNOWN_GROUP),
        (b'{"group":"","sensor":"s0","ts":0,"value":1}', DeadLetterCause.UNKNOWN_GROUP),
        (b'{"group":"g0","sensor":"x","ts":0,"value":1}', DeadLetterCause.UNKNOWN_SENSOR),
        (b'{"group":"g0","sensor":"s0","value":1}', DeadLetterCause.BAD_TIME),
        (b'{"group":"g0","sensor":"s0","ts":"2023-11-14T22:13:20","value":1}', DeadLetterCause.BAD_TIME),
        (b'{"group":"g0","sensor":"s0","ts":"tomorrow","value":1}', DeadLetterCause.BAD_TIME),
        (b'{"group":"g0","sensor":"s0","ts":1e300,"value":1}', DeadLetterCause.BAD_TIME),
        (b'{"group":"g0","sensor":"s0","ts":99999999999999999999999999,"value":1}', DeadLetterCause.BAD_TIME),
        (b'{"group":"g0","sensor":"s0","ts":1700000000000000,"value":1}', DeadLetterCause.TS_UNIT),
        (b'{"group":"g0","sensor":"s0","ts":NaN,"value":1}', DeadLetterCause.BAD_TIME),
        (b'{"group":"g0","sensor":"s0","ts":1700000300001,"value":1}', DeadLetterCause.FUTURE),
        (b'{"group":"g0","sensor":"s0","ts":0,"value":10.5}', DeadLetterCause.OUT_OF_LIMITS),
        (b'{"group":"g0","sensor":"s1","ts":0,"value":Infinity}', DeadLetterCause.OUT_OF_LIMITS),
        (b'{"group":"g0","sensor":"s1","ts":0,"value":-Infinity}', DeadLetterCause.OUT_OF_LIMITS),
        (b'{"group":"g0","sensor":"s1","ts":0,"value":1e999}', DeadLetterCause.OUT_OF_LIMITS),
        (b'{"group":"g0","sensor":"s1","ts":0,"value":1' + b"0" * 400 + b"}", DeadLetterCause.OUT_OF_LIMITS),
    ],
)
def test_an_unusable_record_is_rejected_with_its_cause_and_the_others_are_read(
    value: bytes | None, cause: DeadLetterCause
) -> None:
    good = json.dumps(single(sensor="s1")).encode()
    records = [Record(good, 0), Record(value, 1), Record(good, 2)]
    readings, rejects = decode(*records, rules=catalogue(sensors=LIMITED))
    assert keys(readings) == [(0, 0), (2, 0)]
    assert [reject.offset for reject in rejects] == [1]
    assert rejects[0].cause is cause
    assert rejects[0].detail


def test_a_rebuild_rejects_the_same_future_readings() -> None:
    """A reading is compared with the time of its record, because the wall clock has moved on when a worker rebuilds."""
    limit_ms = NOW_MS + 300_000
    records = [
        Record(json.dumps(single(ts=ts)).encode(), offset, timestamp=NOW_MS)
        for offset, ts in enumerate([limit_ms, limit_ms + 1, NOW_MS])
    ]
    for now_ms in (NOW_MS, NOW_MS + 10**9):
        readings, rejects = Decoder(GroupIndex(catalogue(step_s=60))).decode(records, now_ms=now_ms)
        assert readings.offset.tolist() == [0, 2]
        assert [(reject.offset, reject.cause) for reject in rejects] == [(1, DeadLetterCause.FUTURE)]


@pytest.mark.parametrize(
    ("field", "ts", "produced_ms"),
    [
        ("earliest", -2_208_988_800_000, NOW_MS),
        ("latest", 7_258_118_400_000, 7_258_118_400_000),
    ],
)
def test_the_first_and_the_last_accepted_time_are_accepted(field: str, ts: int, produced_ms: int) -> None:
    beyond = ts - 1 if field == "earliest" else ts + 1
    records = [
        Record(json.dumps(single(ts=each)).encode(), offset, timestamp=produced_ms)
        for offset, each in enumerate([ts, beyond])
    ]
    readings, (reject,) = decode(*records)
    assert (readings.offset.tolist(), readings.event_time_ms.tolist()) == ([0], [ts])
    assert (reject.offset, reject.cause) == (1, DeadLetterCause.BAD_TIME)
    assert reject.detail == f"expected epoch milliseconds or ISO 8601 with a zone, found {beyond}"


def test_limits_are_inclusive_and_so_is_the_largest_float() -> None:
    largest = float(np.finfo(np.float64).max)
    good = [("s0", -10), ("s0", 10), ("s1", largest), ("s1", -largest)]
    bad = [("s0", -10.001), ("s0", 10.001), ("s1", math.inf), ("s1", -math.inf)]
    records = [
        json_record(offset, **single(sensor=sensor, value=value)) for offset, (sensor, value) in enumerate(good + bad)
    ]
    readings, rejects = decode(*records, rules=catalogue(sensors=LIMITED))
    assert readings.offset.tolist() == [0, 1, 2, 3]
    assert [(each.offset, each.cause) for each in rejects] == [
        (offset, DeadLetterCause.OUT_OF_LIMITS) for offset in (4, 5, 6, 7)
    ]
    assert rejects[1].detail == "10.001 of s0 is outside [-10.0, 10.0]"


def test_times_are_rounded_down_to_milliseconds_also_before_1970() -> None:
    records = [json_record(offset, **single(ts=ts)) for offset, ts in enumerate([-0.5, 0.5, 1.999])]
    assert decode(*records)[0].event_time_ms.tolist() == [-1, 0, 1]


def test_a_fraction_of_a_millisecond_beyond_the_limit_is_accepted() -> None:
    record = Record(json.dumps(single(ts=NOW_MS + 300_000.9)).encode(), timestamp=NOW_MS)
    readings, rejects = decode(record, rules=catalogue(step_s=60))
    assert (readings.event_time_ms.tolist(), rejects) == ([NOW_MS + 300_000], [])


def test_zero_is_a_valid_record_time() -> None:
    readings, _ = decode(Record(json.dumps(single(ts=0)).encode(), timestamp=0))
    assert readings.produced_ms.tolist() == [0]


def test_a_reading_of_a_requeued_record_is_marked() -> None:
    value = json.dumps(single()).encode()
    headers = [[("trace", b"")], [("trace", b""), ("glaim-requeued", b"1")], []]
    readings, _ = decode(*(Record(value, offset, None, each) for offset, each in enumerate(headers)))
    assert readings.requeued.tolist() == [False, True, False]


@pytest.mark.parametrize("bad", [single(group="x"), single(sensor="x"), single(ts="never"), single(value=99)])
@pytest.mark.parametrize("shape", ["single", "step", "batch", "plain"])
def test_a_bad_reading_does_not_affect_the_others(bad: dict[str, Any], shape: str) -> None:
    """Each shape has its own column maker; the reject detail quotes the bad reading in the middle."""

    def document(reading: dict[str, Any]) -> dict[str, Any]:
        group, sensor, ts, value = (reading[name] for name in ("group", "sensor", "ts", "value"))
        if shape == "single":
            return reading
        if shape == "step":
            return {"group": group, "ts": ts, "values": {sensor: value, "s1": 7}}
        inner = {"sensor": sensor, "ts": ts, "value": value}
        other = {"sensor": "s1", "ts": NOW_MS, "value": 7} | ({"group": group} if shape == "batch" else {})
        return {"group": group, "readings": [inner, other]}

    good = [single(value=1), single(group="g1", sensor="s1", ts=NOW_MS - 1, value=2)]
    records = [json_record(offset, **document(each)) for offset, each in enumerate([good[0], bad, good[1]])]
    readings, rejects = decode(*records, rules=catalogue(sensors=LIMITED))
    (first,) = [each for each in rejects if each.position == 0]
    assert first.offset == 1
    quotes = {"x": "'x'", "never": "'never'", 99: "99.0"}
    assert next(quote for key, quote in quotes.items() if key in bad.values()) in first.detail
    found = list(
        zip(keys(readings), readings.sensor.tolist(), readings.event_time_ms.tolist(), readings.value, strict=True)
    )
    assert found[0] == ((0, 0), 0, NOW_MS, 1)
    last = [each for each in found if each[0] == (2, 0)]
    assert last == [((2, 0), 1, NOW_MS - 1, 7 if shape == "step" else 2)]


def test_polls_with_one_common_shape_are_decoded_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_by_one(*arguments: object) -> None:
        raise AssertionError("the union was used")

    monkeypatch.setattr(module, "_documents", one_by_one)
    items = [{"sensor": "s0", "ts": NOW_MS, "value": 1}, {"sensor": "s1", "ts": NOW_MS}]
    assert len(decode(json_record(0, **single()), json_record(1, **single()))[0]) == 2
    assert len(decode(*(json_record(offset, group="g0", readings=items) for offset in range(2)))[0]) == 4


def test_one_broken_record_does_not_affect_the_others_of_a_poll() -> None:
    records = [json_record(offset, **single(value=offset)) for offset in range(40)]
    records[20] = Record(b"{", 20)
    readings, (reject,) = decode(*records)
    assert readings.value.tolist() == [value for value in range(40) if value != 20]
    assert (reject.offset, reject.cause) == (20, DeadLetterCause.UNDECODABLE)


def test_the_good_readings_of_a_record_are_read_without_the_bad_ones() -> None:
    items = [{"sensor": "s0"}, {"sensor": "x", "value": 1}, {"sensor": "s1", "value": 2}]
    readings, rejects = decode(json_record(7, group="g0", ts=NOW_MS, readings=items))
    assert keys(readings) == [(7, 0), (7, 2)]
    assert [(reject.position, reject.cause) for reject in rejects] == [(1, DeadLetterCause.UNKNOWN_SENSOR)]


@pytest.mark.parametrize(
    "tricks",
    [
        [b"", b'{"x":1}\n{"x":2}'],
        [b" ", b'{"group":"g0","sensor":"s0","ts":0,"value":1}\n{"group":"g0","sensor":"s0","ts":0,"value":2}'],
        [b"\n", b"\n\n"],
        [b'{"group":"g0"', b'"sensor":"s0"}'],
        [b'{"group":"g0",\n"sensor":"s0","ts":0,"value":1}'],
        [b"\r", b"\r\n", b"1\r2"],
        [b'{"group":"g0","sensor":"s0","ts":0,"value":1}\x00', b"\x00"],
    ],
)
def test_newlines_and_blanks_do_not_affect_other_records(tricks: list[bytes]) -> None:
    good = [Record(json.dumps(single(value=n)).encode(), n) for n in range(len(tricks) + 1)]
    mixed = [good[0]]
    for n, trick in enumerate(tricks):
        mixed += [Record(trick, 100 + n), good[n + 1]]
    readings, _ = decode(*mixed)
    value_of = dict(zip(readings.offset.tolist(), readings.value.tolist(), strict=True))
    assert {offset: value for offset, value in value_of.items() if offset < 100} == {n: n for n in range(len(good))}


def test_without_records_there_are_no_readings() -> None:
    readings, rejects = decode()
    assert (len(readings), rejects) == (0, [])


# Properties

names = st.sampled_from(["g0", "g1", "x", "", "s0", "s1", "\u00e9", "\n", "\x00", "\U0001f600"])
numbers = st.one_of(st.floats(), st.integers(-(10**30), 10**30), st.none(), st.booleans(), names)
times = st.one_of(
    st.integers(NOW_MS - 10**6, NOW_MS), numbers, st.just("2020-01-01T00:00:00Z"), st.datetimes().map(str)
)
items = st.fixed_dictionaries(
    {},
    optional={
        "sensor": names,
        "value": numbers,
        "ts": times,
        "group": names,
        "quality": names | st.sampled_from(["bad", "uncertain", 2**31]),
    },
)
documents = st.one_of(
    st.fixed_dictionaries({"group": names, "sensor": names, "ts": times, "value": numbers}),
    st.fixed_dictionaries(
        {},
        optional={
            "group": names,
            "sensor": names,
            "ts": times,
            "value": numbers,
            "quality": names | st.sampled_from(["Bad_NoData", "Uncertain", 2**30]),
            "values": st.dictionaries(names, numbers, max_size=3),
            "readings": st.lists(items, max_size=3),
            "else": numbers,
        },
    ),
    st.recursive(numbers, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2)),
)


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """Valid JSON, JSON with a few changed bytes, or any bytes."""
    if draw(st.integers(0, 4)) == 0:
        return draw(st.binary(max_size=40))
    text = bytearray(json.dumps(draw(documents), ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        place = draw(st.integers(0, len(text)))
        text[place : place + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(text)


stamps = st.integers(NOW_MS - 10**6, NOW_MS) | st.integers(-(2**65), 2**65)
finite = st.floats(allow_nan=False, allow_infinity=False)
plain_items = st.fixed_dictionaries({"sensor": names, "ts": stamps, "value": finite | st.none()})
plain = st.fixed_dictionaries({"group": names, "readings": st.lists(plain_items, max_size=3)})
plain_payloads = plain.map(lambda document: json.dumps(document, ensure_ascii=False).encode())  # as gateways send them
record_keys = st.none() | st.sampled_from([b"g0", b"x", b"\xff", b""])
batches = st.lists(st.tuples(payloads(), record_keys), max_size=6) | st.lists(
    st.tuples(plain_payloads, record_keys), max_size=6
)


def as_records(batch: list[tuple[bytes, bytes | None]]) -> list[Record]:
    return [Record(value, offset, key) for offset, (value, key) in enumerate(batch)]


@given(batches)
def test_no_bytes_raise_and_every_record_becomes_readings_or_rejects(batch: list[tuple[bytes, bytes | None]]) -> None:
    readings, rejects = decode(*as_records(batch), rules=catalogue(sensors=LIMITED))
    assert {*readings.offset.tolist(), *(reject.offset for reject in rejects)} == set(range(len(batch)))
    rejected = {(reject.offset, reject.position) for reject in rejects}
    assert not rejected & set(keys(readings)), "a reading is both used and rejected"
    assert np.array_equal(np.isnan(readings.value), readings.quality == 2)
    finite = readings.value[~np.isnan(readings.value)]
    assert np.isfinite(finite).all()
    assert (readings.event_time_ms <= NOW_MS + 300_000).all()
    assert keys(readings) == sorted(keys(readings)), "the order of arrival is kept"


@given(batches)
def test_records_decode_alike_together_and_alone(batch: list[tuple[bytes, bytes | None]]) -> None:
    records = as_records(batch)
    together, rejects = decode(*records)
    alone = [decode(record) for record in records]
    assert keys(together) == [key for readings, _ in alone for key in keys(readings)]
    assert np.array_equal(
        together.value, np.concatenate([np.empty(0, np.float64), *(each.value for each, _ in alone)]), equal_nan=True
    )
    found = {(reject.offset, reject.position, reject.cause) for reject in rejects}
    assert found == {(each.offset, each.position, each.cause) for _, alone_ in alone for each in alone_}


@given(batches)
def test_the_fast_and_the_slow_path_agree(batch: list[tuple[bytes, bytes | None]]) -> None:
    records = as_records(batch)
    fast, fast_rejects = decode(*records, rules=catalogue(sensors=LIMITED))

    with patch.object(module, "_decode_lines", lambda lines, count, decoder: None):
        slow, slow_rejects = decode(*records, rules=catalogue(sensors=LIMITED))
    for column in ("model", "group", "sensor", "event_time_ms", "value", "offset", "position", "quality"):
        assert np.array_equal(getattr(fast, column), getattr(slow, column), equal_nan=True), column
    assert fast_rejects == slow_rejects
