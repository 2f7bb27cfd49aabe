"""Readings with timestamps ahead of the time of their record."""

import numpy as np

from glaim_stream.windows.clock import limit_skew
from glaim_stream.windows.partition import PartitionWindows
from tests.event_time import fed, feed
from tests.support import Event, catalogue, rows_of

HOUR_MS = 3_600_000


def test_a_fast_sensor_clock_does_not_close_the_steps_of_other_groups() -> None:
    """
    wall time       0     1     2     3
    g0              1     1     1     1
    g1 stamps       4     5     6     7      four seconds ahead
    """
    windows = PartitionWindows(catalogue(sensors=1))
    rows = []
    for second in range(12):
        rows += feed(windows, [Event(second * 1000, 1.0, 0)], 2 * second)
        ahead = Event(second * 1000 + 4_000, 2.0, 1, produced_ms=second * 1000)
        part = fed(windows, [ahead], 2 * second + 1)
        assert part.skewed == 1
        rows += rows_of(part.closed)
    assert [row.value for row in rows if row.group == 0] == [1.0] * 11, "no step closed before its reading"
    assert not [row for row in rows if row.revision > 1]
    assert [(row.ts_ms, row.value) for row in rows if row.group == 1] == [(ts, 2.0) for ts in range(4000, 11_000, 1000)]


def test_readings_ahead_stay_in_their_step_until_the_clock_reaches_it() -> None:
    windows = PartitionWindows(catalogue(sensors=1, window=8, max_ahead_s=8))
    assert feed(windows, [Event(8_000, 5.0, produced_ms=0)]) == []
    (row,) = feed(windows, [Event(9_000, 6.0)])
    assert (row.ts_ms, row.value, row.observed) == (8_000, 5.0, True)


def test_a_skewed_time_is_limited_to_its_record_or_to_the_room_in_the_rings() -> None:
    events, produced = np.array([5, 100, 3 * HOUR_MS]), np.array([9, 60, 0])
    counted, skewed = limit_skew(events, produced, np.array([HOUR_MS]))
    assert (counted.tolist(), skewed) == ([5, 60, 2 * HOUR_MS], 2)


def test_without_skew_event_times_are_unchanged() -> None:
    events = np.array([5, 7])
    counted, skewed = limit_skew(events, events, np.array([0]))
    assert counted is events
    assert skewed == 0


def test_room_ahead_is_bounded_by_the_window() -> None:
    rules = catalogue(window=96, max_gap=48, revise_after=8, max_ahead_s=300)
    assert rules.max_ahead_ms(rules.models[0]) == 96_000, "steps are seconds"
    minutes = catalogue(step_s=60, max_ahead_s=300)
    assert minutes.max_ahead_ms(minutes.models[0]) == 300_000
