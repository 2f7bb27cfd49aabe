"""A record from the future is believed up to the wall clock, and a rebuild judges as the worker did."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.core.readings import InputRecord
from glaim_stream.core.rejects import DeadLetterCause
from glaim_stream.core.stamps import LEAST_BOUND_MS, MAX_TICKS, PartitionStamps, Tick, bound_ms, ticks_of, ticks_text
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows import Applied, PartitionWindows
from tests.support import Record, catalogue

NOW_MS = 1_740_787_200_000  # 2025-03-01T00:00:00Z
YEAR_2100_MS = 4_102_444_800_000
BOUND_MS = 300_000


@dataclass(frozen=True)
class Stamped(Record):
    """A record with Kafka's type of its time."""

    timestamp_type: int = 0  # CreateTime


def reading(offset: int, ts: int, *, stamp: int | None = None, **fields: Any) -> Stamped:
    document = {"group": "g0", "sensor": "s0", "ts": ts, "value": 1.0}
    return Stamped(json.dumps(document).encode(), offset, timestamp=ts if stamp is None else stamp, **fields)


def pipeline() -> Pipeline:
    return Pipeline(catalogue(), {}, Ladder([Interpolation()]))


def apply(records: Sequence[InputRecord], now_ms: int = NOW_MS) -> tuple[PartitionWindows, Applied]:
    it = pipeline()
    windows = it.windows()
    return windows, it.apply(windows, records, now_ms=now_ms)


def test_one_record_of_2100_makes_no_other_reading_late() -> None:
    records = [reading(0, NOW_MS), reading(1, YEAR_2100_MS), reading(2, NOW_MS + 1000), reading(3, NOW_MS + 2000)]
    windows, applied = apply(records)
    assert windows.clock.newest_event_ms == NOW_MS + 2000
    (reject,) = applied.rejects
    assert (reject.offset, reject.cause, reject.position) == (1, DeadLetterCause.FUTURE, 0)
    assert reject.detail == f"{YEAR_2100_MS} is too far ahead of the wall clock, as is its record"
    assert applied.readings == 3


def test_a_sane_reading_of_a_record_of_2100_is_taken() -> None:
    windows, applied = apply([reading(0, NOW_MS, stamp=YEAR_2100_MS)])
    assert (applied.rejects, windows.clock.newest_event_ms) == ([], NOW_MS)


def test_seconds_are_recognised_in_a_record_of_2100() -> None:
    _, applied = apply([reading(0, NOW_MS // 1000, stamp=YEAR_2100_MS)])
    assert [reject.cause for reject in applied.rejects] == [DeadLetterCause.TS_UNIT]


def test_a_record_within_the_bound_is_believed() -> None:
    windows, applied = apply([reading(0, NOW_MS + LEAST_BOUND_MS)])
    assert (applied.rejects, windows.clock.newest_event_ms) == ([], NOW_MS + LEAST_BOUND_MS)
    assert windows.stamps.needed(0) == []


def test_a_time_of_the_broker_is_believed_whatever_the_workers_clock() -> None:
    record = reading(0, NOW_MS + 3_600_000, timestamp_type=1)
    windows, applied = apply([record])
    assert (applied.rejects, windows.clock.newest_event_ms) == ([], NOW_MS + 3_600_000)


def test_a_topic_that_is_older_than_the_clock_leaves_no_ticks() -> None:
    windows, _ = apply([reading(n, NOW_MS - 10**9 + n * 1000) for n in range(50)])
    assert windows.stamps.needed(0) == []


def test_ticks_end_with_the_record_that_needed_them() -> None:
    windows, _ = apply([reading(5, NOW_MS), reading(6, YEAR_2100_MS)])
    assert windows.stamps.needed(5) == [Tick(5, NOW_MS)]
    assert windows.stamps.needed(6) == [Tick(5, NOW_MS)]
    assert windows.stamps.needed(7) == []


def test_the_bound_gives_room_for_a_rebuild_of_any_length() -> None:
    assert bound_ms(0, 0) == LEAST_BOUND_MS
    assert bound_ms(300_000, 0) == 300_000
    day_ms = 24 * 3_600_000
    assert MAX_TICKS * bound_ms(300_000, day_ms) // 2 >= day_ms


@given(st.lists(st.tuples(st.integers(0, 2**50), st.integers(0, 2**45)), max_size=MAX_TICKS))
def test_ticks_are_read_back(pairs: list[tuple[int, int]]) -> None:
    ticks = [Tick(*pair) for pair in sorted(pairs)]
    assert ticks_of(ticks_text(ticks)) == ticks


def test_the_ticks_of_a_commit_are_short() -> None:
    ticks = [Tick(10**12 + n * 10**7, NOW_MS + n * 150_000) for n in range(MAX_TICKS)]
    assert len(ticks_text(ticks)) < 1500


@pytest.mark.parametrize("text", ["x", "1", "1:2,", "1:2:3", "a:b"])
def test_text_of_other_tools_holds_no_ticks(text: str) -> None:
    assert ticks_of(text) == []


def verdicts_of(stamps: PartitionStamps, records: Sequence[Stamped], now_ms: int) -> list[bool]:
    offset = np.array([record.offset for record in records])
    produced_ms = np.array([record.timestamp for record in records])
    believed_ms = stamps.believed_until(records, offset, produced_ms, now_ms)
    if believed_ms is None:
        return [True] * len(records)
    return (believed_ms == np.iinfo(np.int64).max).tolist()


batches = st.lists(
    st.tuples(
        st.integers(0, 400_000),  # wall time since the last batch
        st.lists(
            st.sampled_from([-(10**8), 0, 100_000, 200_000, 299_000, 301_000, 600_000, 10**7, 10**12]), min_size=1
        ),
    ),
    min_size=1,
    max_size=30,
)


@given(batches, st.data())
def test_a_rebuild_judges_as_the_worker_did_whenever_and_in_whatever_batches(
    given_batches: list[tuple[int, list[int]]], data: st.DataObject
) -> None:
    live, now_ms, records, verdicts, ticks = PartitionStamps(BOUND_MS), NOW_MS, list[Stamped](), list[bool](), ""
    first = 0
    for pause_ms, ahead in given_batches:
        now_ms += pause_ms
        batch = [Stamped(None, len(records) + n, timestamp=now_ms + each) for n, each in enumerate(ahead)]
        found = verdicts_of(live, batch, now_ms)
        for each, believed in zip(ahead, found, strict=True):
            assert believed or each > BOUND_MS // 2
            assert not believed or each <= BOUND_MS
        records += batch
        verdicts += found
        first = data.draw(st.integers(first, len(records)))
        ticks = ticks_text(live.needed(first))
    again = PartitionStamps(BOUND_MS)
    again.recall(ticks_of(ticks), len(records))
    cuts = sorted({first, len(records), *data.draw(st.lists(st.integers(first, len(records)), max_size=5))})
    later_ms = now_ms + data.draw(st.sampled_from([0, 10**6, 10**13]))
    rebuilt = [
        believed for start, stop in pairwise(cuts) for believed in verdicts_of(again, records[start:stop], later_ms)
    ]
    assert rebuilt == verdicts[first:]
    assert ticks_text(again.needed(first)) == ticks
