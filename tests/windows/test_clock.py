"""The event clock of a partition, and the offsets of the records that closed its steps."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.core.catalogue import parse_catalogue
from glaim_stream.windows.clock import NEVER_MS, ClosingOffsets, EventClock
from glaim_stream.windows.partition import PartitionWindows
from tests.event_time import feed
from tests.support import Event

stamps = st.lists(st.integers(-(10**13), 10**13), max_size=30)


def test_the_clock_returns_the_newest_time_after_each_reading() -> None:
    clock = EventClock()
    assert clock.observe(np.array([5, 3, 9, 7]), 100).tolist() == [5, 5, 9, 9]
    assert clock.newest_event_ms == 9


def test_a_late_batch_does_not_move_the_clock_back() -> None:
    clock = EventClock()
    clock.observe(np.array([50]), 100)
    assert clock.observe(np.array([10, 20]), 200).tolist() == [50, 50]
    assert clock.newest_event_ms == 50


def test_an_empty_batch_does_not_count_as_an_arrival() -> None:
    clock = EventClock()
    assert clock.observe(np.empty(0, np.int64), 100).tolist() == []
    assert clock.newest_event_ms == NEVER_MS
    assert clock.last_arrival_ms is None
    assert clock.idle_ms(10**12) == 0


def test_idleness_counts_from_the_last_arrival_and_is_never_negative() -> None:
    clock = EventClock()
    clock.observe(np.array([1]), 1000)
    assert clock.idle_ms(4000) == 3000
    assert clock.idle_ms(500) == 0, "wall clocks may be set back"


def test_subtracting_the_lateness_from_never_does_not_overflow() -> None:
    assert np.iinfo(np.int64).min < NEVER_MS - 30 * 24 * 3600 * 1000


@given(stamps, st.lists(st.integers(0, 30), max_size=5))
def test_the_clock_does_not_depend_on_the_batches(times: list[int], cuts: list[int]) -> None:
    whole, parts = EventClock(), EventClock()
    expected = whole.observe(np.array(times, np.int64), 0).tolist()
    edges = sorted({0, len(times), *(cut for cut in cuts if cut < len(times))})
    found = [time for a, b in pairwise(edges) for time in parts.observe(np.array(times[a:b], np.int64), 0).tolist()]
    assert found == expected
    assert found == sorted(found), "the clock never moves back"


def closing_offsets() -> ClosingOffsets:
    """Closing offsets for windows of 3 steps of 10 ms and 5 ms of lateness: step t closes at (t + 1) * 10 + 5 ms."""
    return ClosingOffsets(3, 10, 5)


def test_a_step_is_closed_by_the_first_record_past_its_end_and_the_lateness() -> None:
    """
    offset     100  101  102  103
    newest ms    5   24   25   40
    closes            0    1    2      at 15, 25 and 35 ms
    """
    closing = closing_offsets()
    closing.record(0, 3, np.array([5, 24, 25, 40]), np.array([100, 101, 102, 103]))
    assert closing.of(np.array([2, 0, 1])).tolist() == [103, 101, 102]


def test_a_step_closed_before_the_first_record_has_the_offset_of_that_record() -> None:
    closing = closing_offsets()
    closing.record(0, 1, np.array([5, 15]), np.array([100, 101]))
    assert closing.of(np.array([-2, -1, 0])).tolist() == [100, 100, 101]


def test_a_batch_does_not_change_the_offsets_of_steps_closed_before_it() -> None:
    closing = closing_offsets()
    closing.record(0, 2, np.array([5, 15, 25]), np.array([100, 101, 102]))
    closing.record(2, 3, np.array([30, 35]), np.array([103, 104]))
    assert closing.of(np.array([0, 1, 2])).tolist() == [101, 102, 104]


def test_after_a_jump_the_offsets_of_the_newest_window_are_known() -> None:
    closing = closing_offsets()
    closing.record(0, 100, np.array([5, 994, 1005]), np.array([100, 101, 102]))
    assert closing.of(np.array([97, 98, 99])).tolist() == [101, 102, 102]


def test_a_rebuild_includes_the_record_of_another_model_that_closed_a_step() -> None:
    """
    offset      0     1     2     3
    model       b     b     a     b
    time ms     0  1000     0  8000      the reading of `a` is late, because offset 1 has closed step 0

    Model `b` has windows of 4 steps, so only `a`, with 12 steps, still depends on step 0.
    """
    models = [
        {"name": name, "sensors": [{"id": "s0"}], "step_s": 1, "window": window, "revise_after": 1, "max_gap": 2}
        for name, window in (("a", 12), ("b", 4))
    ]
    groups = [{"model": name, "pattern": f"{name}*"} for name in ("a", "b")]
    windows = PartitionWindows(parse_catalogue({"models": models, "groups": groups}, source="test"))
    readings = [Event(0, group=1, model=1), Event(1000, group=1, model=1), Event(0), Event(8000, group=1, model=1)]
    late = [row for row in feed(windows, readings) if row.model == 0 and row.observed]
    assert [row.revision for row in late] == [3]
    assert windows.rebuild_from(100) == 1
