"""Event times in another unit are refused by name; none of them is read as a time of the seventies."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.core.readings import Readings
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.decode.decoder import Decoder
from glaim_stream.decode.groups import GroupIndex
from glaim_stream.decode.time_units import PLAUSIBLE_MS, TimeUnit, found_units
from tests.support import Record, catalogue

NOW_MS = 1_740_787_200_000  # 2025-03-01T00:00:00Z
ARROW = ("content-type", b"application/vnd.apache.arrow.stream")
UNITS = [
    (1_740_787_200, "epoch seconds"),
    (1_740_787_200.25, "epoch seconds"),
    (1_456_790_400, "epoch seconds"),  # an archive of nine years before
    (1_740_787_200_000_000, "epoch microseconds"),
    (1_740_787_200_000_000_000, "epoch nanoseconds"),
    (20_250_301, "a date in digits"),
    (202_503_010_000, "a date in digits"),
    (20_250_301_000_000, "a date in digits"),
]


def decode(*records: Record) -> tuple[Readings, list[Reject]]:
    return Decoder(GroupIndex(catalogue())).decode(records, now_ms=NOW_MS)


def shapes(ts: object) -> list[Record]:
    """The time in every form of a record: one reading, a step, plain items, items with a group of their own."""
    documents = [
        {"group": "g0", "sensor": "s0", "ts": ts, "value": 1},
        {"group": "g0", "ts": ts, "values": {"s0": 1}},
        {"group": "g0", "readings": [{"sensor": "s0", "ts": ts, "value": 1}]},
        {"readings": [{"group": "g0", "sensor": "s0", "ts": ts, "value": 1}]},
    ]
    return [Record(json.dumps(document).encode(), 0, timestamp=NOW_MS) for document in documents]


def arrow(ts: pa.Array) -> Record:
    table = pa.table({"group": ["g0"] * len(ts), "ts": ts, "s0": [1.0] * len(ts)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Record(sink.getvalue().to_pybytes(), 0, timestamp=NOW_MS, headers=[ARROW])


@pytest.mark.parametrize(("ts", "unit"), UNITS)
def test_a_time_in_another_unit_is_refused_and_its_unit_is_named(ts: float, unit: str) -> None:
    for record in [*shapes(ts), *([arrow(pa.array([ts]))] if isinstance(ts, int) else [])]:
        readings, (reject,) = decode(record)
        assert len(readings) == 0
        assert (reject.cause, reject.position) == (DeadLetterCause.TS_UNIT, 0)
        assert reject.detail == f"expected epoch milliseconds, found {unit}: {ts}"


def test_readings_in_milliseconds_beside_it_pass() -> None:
    good, bad = ({"sensor": "s0", "ts": ts, "value": 1} for ts in (NOW_MS, NOW_MS // 1000))
    records = [
        Record(json.dumps({"group": "g0", "readings": [good, bad, good]}).encode(), 3, timestamp=NOW_MS),
        arrow(pa.array([NOW_MS // 1000, NOW_MS])),
    ]
    readings, rejects = decode(*records)
    assert readings.position.tolist() == [0, 2, 1]
    assert [(reject.offset, reject.position) for reject in rejects] == [(3, 1), (0, 0)]


def test_a_record_without_a_time_is_judged_by_the_wall_clock() -> None:
    document = {"group": "g0", "sensor": "s0", "ts": NOW_MS // 1000, "value": 1}
    _, (reject,) = decode(Record(json.dumps(document).encode(), 0, timestamp=-1))
    assert reject.cause is DeadLetterCause.TS_UNIT


def test_the_record_decides_and_not_the_wall_clock() -> None:
    early = datetime(1970, 1, 21, tzinfo=UTC)
    document = {"group": "g0", "sensor": "s0", "ts": round(early.timestamp() * 1000), "value": 1}
    readings, rejects = decode(Record(json.dumps(document).encode(), 0, timestamp=round(early.timestamp() * 1000)))
    assert (len(readings), rejects) == (1, [])


@pytest.mark.parametrize("ts", ["1970-01-21T03:33:07Z", "1976-06-01T15:16:50+01:00"])
def test_text_states_its_unit(ts: str) -> None:
    for record in shapes(ts):
        readings, rejects = decode(record)
        assert (len(readings), rejects) == (1, [])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_timestamp_of_arrow_states_its_unit(unit: str) -> None:
    times = pa.array([1_740_787_200], pa.timestamp("ms", "UTC")).cast(pa.timestamp(unit, "UTC"), safe=False)
    plain = {"group": "g0", "sensor": "s0", "ts": NOW_MS // 1000, "value": 1}
    readings, rejects = decode(arrow(times), Record(json.dumps(plain).encode(), 1, timestamp=NOW_MS))
    assert readings.event_time_ms.tolist() == [1_740_787_000 if unit == "s" else 1_740_787_200]
    assert [reject.offset for reject in rejects] == [1]


@pytest.mark.parametrize(
    "ts", [NOW_MS, NOW_MS - PLAUSIBLE_MS, 0, -5, 86_400_000, 20_251_301, 20_250_332, 202_503_012_400, 320_000_000_000]
)
def test_what_is_plausible_in_no_other_unit_is_milliseconds(ts: int) -> None:
    for record in shapes(ts):
        readings, rejects = decode(record)
        assert (readings.event_time_ms.tolist(), rejects) == ([ts], [])


@pytest.mark.parametrize("ts", [5e13, 1e17, 1e19, 1e300, -1e17])
def test_a_number_that_is_a_time_in_no_unit_stays_a_bad_time(ts: float) -> None:
    for record in shapes(ts):
        _, (reject,) = decode(record)
        assert reject.cause is DeadLetterCause.BAD_TIME


@given(
    age=st.timedeltas(timedelta(0), timedelta(days=29 * 365)),
    produced=st.datetimes(datetime(2012, 1, 1), datetime(2090, 1, 1)),
)
def test_every_time_of_the_last_decades_is_recognised_in_every_unit(produced: datetime, age: timedelta) -> None:
    moment = (produced - age).replace(tzinfo=UTC)
    produced_ms = np.array([round(produced.replace(tzinfo=UTC).timestamp() * 1000)])
    seconds = moment.timestamp()
    if seconds < 0:
        return
    stated = [
        (seconds * 1000, TimeUnit.MILLISECONDS),
        (seconds, TimeUnit.SECONDS),
        (seconds * 1e6, TimeUnit.MICROSECONDS),
        (seconds * 1e9, TimeUnit.NANOSECONDS),
        (float(f"{moment:%Y%m%d}"), TimeUnit.DATE_DIGITS),
        (float(f"{moment:%Y%m%d%H%M}"), TimeUnit.DATE_DIGITS),
        (float(f"{moment:%Y%m%d%H%M%S}"), TimeUnit.DATE_DIGITS),
    ]
    for number, unit in stated:
        units = found_units(np.array([number]), produced_ms)
        assert (TimeUnit.MILLISECONDS if units is None else TimeUnit(units[0])) is unit


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", [1.7e308, -1.7e308])
def test_the_largest_numbers_are_times_in_no_unit_and_raise_no_warning(number: float) -> None:
    units = found_units(np.array([number, 0.0]), np.array([1_760_000_000_000] * 2))
    assert units is not None
    assert units.tolist() == [0, 0]
