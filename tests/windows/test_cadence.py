"""Sensors that are due less often than the step of their model."""

from __future__ import annotations

from typing import Any

import pytest

from glaim_stream.catalogue import Catalogue
from glaim_stream.errors import CatalogueError
from glaim_stream.windows.partition import PartitionWindows
from tests.event_time import feed
from tests.support import Event, Row, catalogue


def slow(cadence_s: float | None = 3, **rules: Any) -> Catalogue:
    """s0 at each step, s1 every three."""
    rules = {"window": 12, "max_gap": 8, "revise_after": 2} | rules
    return catalogue(sensors=[{"id": "s0"}, {"id": "s1", "cadence_s": cadence_s}], **rules)


def run(windows: PartitionWindows, slow_at: dict[int, float], steps: range) -> list[Row]:
    """s0 speaks at each step; rows of s1."""
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
                      hole    none in 3..5, and the only one
    """
    rows = run(PartitionWindows(slow()), {1: 5.0, 7: 6.0}, range(11))
    assert [(row.ts_ms // 1000, row.observed, row.gap_age, row.revision) for row in rows] == [
        (1, True, 0, 0),
        (5, False, 4, 0),
        (7, True, 0, 0),
        (5, False, 4, 1),
    ]
    assert [row.lag for row in rows if row.revision == 1] == [2]


def test_intervals_begin_at_the_epoch() -> None:
    rows = run(PartitionWindows(slow()), {-3: 5.0}, range(-3, 6))
    assert [row.ts_ms // 1000 for row in rows if row.revision == 0] == [-3, 2]
    rows = run(PartitionWindows(slow(4)), {-4: 5.0}, range(-4, 6))
    assert [row.ts_ms // 1000 for row in rows if row.revision == 0] == [-4, 3]


def test_a_hole_that_a_late_reading_of_its_interval_undoes_still_gets_its_last_word() -> None:
    """
    step      0  1  2 | 3  4  5 | 6
    s1        5  .  . | .  .  H |          H is published provisionally, then a reading of step 4 comes
    """
    windows = PartitionWindows(slow())
    assert [(row.ts_ms, row.final) for row in run(windows, {0: 5.0}, range(7))][1:] == [(5000, False)]
    (late,) = feed(windows, [Event(4000, 6.0, sensor=1)])
    assert (late.ts_ms, late.revision) == (4000, 3)
    (last,) = (row for row in run(windows, {}, range(7, 9)) if not row.observed)
    assert (last.ts_ms, last.revision, last.final, last.gap_age) == (5000, 1, True, 1)


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


def test_the_wall_clock_knows_cadences_too() -> None:
    windows = PartitionWindows(slow())
    feed(windows, [Event(0, 1.0), Event(0, 5.0, sensor=1)])
    part = windows.close_idle(10**6).closed[0]
    rows = [(int(ts) // 1000, int(sensor)) for ts, sensor in zip(part.ts_ms, part.sensor, strict=True)]
    assert [step for step, sensor in rows if sensor == 1] == [0, 5, 8]
    assert [step for step, sensor in rows if sensor == 0] == list(range(9))


def test_a_cadence_of_one_step_is_the_same_as_none() -> None:
    given, none = (run(PartitionWindows(slow(cadence)), {0: 5.0, 4: 6.0}, range(12)) for cadence in (1, None))
    assert given == none


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"cadence_s": 2.5}, "multiple of step_s"),
        ({"cadence_s": 0.5}, "multiple of step_s"),
        ({"cadence_s": 5}, "max_gap must be at least that"),
        ({"cadence_s": 0}, "greater than 0"),
    ],
)
def test_cadences_that_cannot_be_are_refused(rules: dict[str, Any], said: str) -> None:
    with pytest.raises(CatalogueError, match=said):
        slow(**rules)
