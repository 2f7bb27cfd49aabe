"""Sensors whose interval is longer than the step of their model."""

from typing import Any

import numpy as np
import pytest

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.errors import CatalogueError
from glaim_stream.windows.cadence import SlowSensors
from glaim_stream.windows.partition import PartitionWindows
from glaim_stream.windows.rings import Rings
from tests.event_time import feed
from tests.support import Event, Row, catalogue


def slow(cadence_s: float | None = 3, **rules: Any) -> Catalogue:
    """A catalogue in which s0 is due at every step and s1 at every third one."""
    rules = {"window": 12, "max_gap": 8, "revise_after": 2} | rules
    return catalogue(sensors=[{"id": "s0"}, {"id": "s1", "cadence_s": cadence_s}], **rules)


def run(windows: PartitionWindows, slow_at: dict[int, float], steps: range) -> list[Row]:
    """Feed readings of s0 at every step and of s1 at the given steps; return the rows of s1."""
    events = []
    for step in steps:
        events.append(Event(step * 1000, 1.0))
        if step in slow_at:
            events.append(Event(step * 1000, slow_at[step], sensor=1))
    return [row for row in feed(windows, events) if row.sensor == 1]


def test_a_sensor_that_is_not_due_is_not_missing() -> None:
    """
    step      0  1  2 | 3  4  5 | 6  7  8 | 9
    s1        .  5  . | .  .  . | .  6  . |
                      hole    no reading in 3..5; the other intervals have one
    """
    rows = run(PartitionWindows(slow()), {1: 5.0, 7: 6.0}, range(11))
    assert [(row.ts_ms // 1000, row.observed, row.gap_age, row.revision) for row in rows] == [
        (1, True, 0, 0),
        (5, False, 4, 0),
        (7, True, 0, 0),
        (5, False, 4, 1),
    ]
    assert [row.lag for row in rows if row.revision == 1] == [2]


def test_intervals_are_aligned_to_the_epoch() -> None:
    rows = run(PartitionWindows(slow()), {-3: 5.0}, range(-3, 6))
    assert [row.ts_ms // 1000 for row in rows if row.revision == 0] == [-3, 2]
    rows = run(PartitionWindows(slow(4)), {-4: 5.0}, range(-4, 6))
    assert [row.ts_ms // 1000 for row in rows if row.revision == 0] == [-4, 3]


def test_a_hole_still_gets_its_final_row_after_a_late_reading_of_its_interval() -> None:
    """
    step      0  1  2 | 3  4  5 | 6
    s1        5  .  . | .  .  H |          H is published provisionally, then a reading of step 4 arrives
    """
    windows = PartitionWindows(slow())
    assert [(row.ts_ms, row.final) for row in run(windows, {0: 5.0}, range(7))][1:] == [(5000, False)]
    (late,) = feed(windows, [Event(4000, 6.0, sensor=1)])
    assert (late.ts_ms, late.revision) == (4000, 3)
    (final,) = (row for row in run(windows, {}, range(7, 9)) if not row.observed)
    assert (final.ts_ms, final.revision, final.final, final.gap_age) == (5000, 1, True, 1)


def test_beyond_max_gap_the_hole_of_each_interval_is_null() -> None:
    rows = run(PartitionWindows(slow()), {0: 5.0}, range(20))
    first = [row for row in rows if row.revision == 0 and not row.observed]
    assert [(row.ts_ms // 1000, row.window is not None, row.final) for row in first] == [
        (5, True, False),
        (8, True, False),
        (11, False, True),
        (14, False, True),
        (17, False, True),
    ]


def test_idle_closing_respects_cadences() -> None:
    windows = PartitionWindows(slow())
    feed(windows, [Event(0, 1.0), Event(0, 5.0, sensor=1)])
    part = windows.close_idle(10**6).closed[0]
    rows = [(int(ts) // 1000, int(sensor)) for ts, sensor in zip(part.ts_ms, part.sensor, strict=True)]
    assert [step for step, sensor in rows if sensor == 1] == [0, 5, 8]
    assert [step for step, sensor in rows if sensor == 0] == list(range(9))


def test_a_cadence_of_one_step_equals_no_cadence() -> None:
    explicit, none = (run(PartitionWindows(slow(cadence)), {0: 5.0, 4: 6.0}, range(12)) for cadence in (1, None))
    assert explicit == none


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"cadence_s": 2.5}, "multiple of step_s"),
        ({"cadence_s": 0.5}, "multiple of step_s"),
        ({"cadence_s": 5}, "max_gap must be at least that"),
        ({"cadence_s": 0}, "expected more than 0"),
    ],
)
def test_an_impossible_cadence_is_rejected(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(CatalogueError, match=message):
        slow(**rules)


def slow_sensors(*cadence: int, revise_after: int = 2, ahead: int = 1, max_gap: int = 4) -> SlowSensors:
    """The slow sensors of two groups."""
    rings = Rings(len(cadence), 8, ahead, mean=False)
    rings.start(0)
    rings.rows(np.arange(2, dtype=np.int32))
    return SlowSensors(rings, np.array(cadence), revise_after=revise_after, ahead=ahead, max_gap=max_gap)


def is_hole(slow: SlowSensors, step: int, *, row: int = 0, sensor: int = 0, age: int = 1) -> bool:
    return bool(slow.holes(step, np.array([row]), np.array([sensor]), np.array([age]))[0])


@pytest.mark.parametrize(
    ("step", "age", "hole"), [(2, 3, True), (2, 4, True), (2, 2, False), (1, 3, False), (3, 3, False), (5, 3, True)]
)
def test_a_slow_sensor_has_a_hole_at_the_end_of_an_interval_without_a_reading(step: int, age: int, hole: bool) -> None:
    """Intervals of 3 steps end at steps 2, 5, 8, ..."""
    assert is_hole(slow_sensors(3), step, age=age) == hole


def test_a_published_hole_stays_a_hole_until_its_final_row() -> None:
    slow = slow_sensors(1, 3)
    slow.published(5, np.array([1]), np.array([1]))
    assert is_hole(slow, 5, row=1, sensor=1)
    assert not is_hole(slow, 5, row=0, sensor=1), "another group"
    assert not is_hole(slow, 8, row=1, sensor=1), "another step"
    slow.finalised(5)
    assert not is_hole(slow, 5, row=1, sensor=1)


def test_there_is_room_for_every_step_that_may_await_its_final_row() -> None:
    """
    step      0  1 | 2 | 3  4  5  6  7     revise_after 2, closable 2, ahead 1, max_gap 4
              0 is final next; step 2 may have a reading, and the wall clock publishes 5 steps after it
    """
    slow = slow_sensors(100)
    for step in range(8):
        slow.published(step, np.array([0]), np.array([0]))
    slow.finalised(0)
    assert [is_hole(slow, step) for step in range(8)] == [False] + [True] * 7
