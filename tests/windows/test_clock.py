"""The event clock of a partition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.windows.clock import NEVER_MS, EventClock

stamps = st.lists(st.integers(-(10**13), 10**13), max_size=30)


def test_it_says_what_the_newest_time_was_when_each_reading_came() -> None:
    clock = EventClock()
    assert clock.observe(np.array([5, 3, 9, 7]), 100).tolist() == [5, 5, 9, 9]
    assert clock.newest_event_ms == 9


def test_a_late_batch_does_not_turn_it_back() -> None:
    clock = EventClock()
    clock.observe(np.array([50]), 100)
    assert clock.observe(np.array([10, 20]), 200).tolist() == [50, 50]
    assert clock.newest_event_ms == 50


def test_an_empty_batch_is_no_arrival() -> None:
    clock = EventClock()
    assert clock.observe(np.empty(0, np.int64), 100).tolist() == []
    assert clock.newest_event_ms == NEVER_MS
    assert clock.last_arrival_ms is None
    assert clock.idle_ms(10**12) == 0


def test_idleness_counts_from_the_last_arrival_and_is_never_negative() -> None:
    clock = EventClock()
    clock.observe(np.array([1]), 1000)
    assert clock.idle_ms(4000) == 3000
    assert clock.idle_ms(500) == 0, "wall clocks are set back sometimes"


def test_lateness_can_be_taken_from_never() -> None:
    assert np.iinfo(np.int64).min < NEVER_MS - 30 * 24 * 3600 * 1000


@given(stamps, st.lists(st.integers(0, 30), max_size=5))
def test_cutting_into_batches_changes_nothing(times: list[int], cuts: list[int]) -> None:
    whole, parts = EventClock(), EventClock()
    expected = whole.observe(np.array(times, np.int64), 0).tolist()
    edges = sorted({0, len(times), *(cut for cut in cuts if cut < len(times))})
    found = [time for a, b in pairwise(edges) for time in parts.observe(np.array(times[a:b], np.int64), 0).tolist()]
    assert found == expected
    assert found == sorted(found), "it never goes back"
