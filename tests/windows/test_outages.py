"""Groups that go dark and return."""

import numpy as np
import pytest

from glaim_stream.windows.holes import LookBack, Rules
from glaim_stream.windows.outages import UNKNOWN_MS, Outage, OutageTracker
from glaim_stream.windows.partition import PartitionWindows
from glaim_stream.windows.rings import Rings
from glaim_stream.windows.states import GroupState, holed_groups, states_of
from tests.event_time import fed
from tests.support import Event, Row, catalogue, rows_of


def events_of(outages: list[Outage], group: int = 0) -> list[tuple[str, int, int, bool]]:
    return [(each.kind, each.ts_ms, each.last_ts_ms, each.by_clock) for each in outages if each.group == group]


def test_a_group_appears_goes_dark_and_returns() -> None:
    """
    step      0     1     2     3     4     5     6     7     8
    g0        5     6     .     .     .     .     .     .     7     max_gap 3
              speaks                        dark              speaks
    """
    windows = PartitionWindows(catalogue(window=12, revise_after=2))
    first = fed(windows, [Event(0, 5.0), Event(1000, 6.0), *(Event(step * 1000, group=1) for step in range(2, 8))])
    assert events_of(first.outages) == [("speaks", 0, UNKNOWN_MS, False), ("dark", 5000, 1000, False)]
    again = fed(windows, [Event(8000, 7.0), Event(9000, group=1)], 8)
    assert events_of(again.outages) == [("speaks", 8000, 1000, False)]
    rows = [row for part in (first, again) for row in rows_of(part.closed) if row.group == 0]
    assert max(row.ts_ms for row in rows_of(first.closed) if row.group == 0) == 4000, "a dark group has no more rows"
    assert {row.ts_ms for row in rows if not row.final} <= {row.ts_ms for row in rows if row.revision == 1}


def test_a_single_silent_sensor_is_no_outage_and_keeps_its_null_rows() -> None:
    windows = PartitionWindows(catalogue())
    part = fed(windows, [Event(0, sensor=1), *(Event(step * 1000) for step in range(10))])
    assert events_of(part.outages) == [("speaks", 0, UNKNOWN_MS, False)]
    assert [
        row.ts_ms for row in rows_of(part.closed) if row.sensor == 1 and row.window is None and not row.observed
    ] == [step * 1000 for step in range(4, 9)]


def test_a_late_reading_ends_an_outage_when_the_next_step_closes() -> None:
    """
    step      0     1     2     3     4     5
    g0        5     .     .     .     .           step 4 closes: dark. Then a reading of step 3 arrives
    """
    windows = PartitionWindows(catalogue())
    assert events_of(fed(windows, [Event(0), Event(5000, group=1)]).outages)[-1] == ("dark", 4000, 0, False)
    late = fed(windows, [Event(3000), Event(6000, group=1)], 2)
    assert events_of(late.outages) == [("speaks", 3000, 0, False)]


def test_the_wall_clock_reports_an_outage_and_event_time_confirms_it() -> None:
    windows = PartitionWindows(catalogue(window=40))
    fed(windows, [Event(0), Event(1000)])
    report = windows.close_idle(10**6)
    assert events_of(report.outages) == [("dark", 5000, 1000, True)]
    assert events_of(windows.close_idle(2 * 10**6).outages) == []
    after = fed(windows, [Event(20_000), Event(21_000)], 2)
    assert events_of(after.outages) == [("dark", 5000, 1000, False), ("speaks", 20_000, 1000, False)]


def test_event_time_withdraws_a_wall_clock_outage_if_readings_were_only_delayed() -> None:
    windows = PartitionWindows(catalogue(window=40))
    fed(windows, [Event(0), Event(1000)])
    assert events_of(windows.close_idle(10**6).outages) == [("dark", 5000, 1000, True)]
    caught_up = fed(windows, [Event(step * 1000) for step in range(2, 12)], 2)
    assert events_of(caught_up.outages) == [("speaks", 2000, 1000, True)]


def test_a_new_group_is_reported_by_the_wall_clock_and_by_event_time() -> None:
    windows = PartitionWindows(catalogue(window=40))
    assert fed(windows, [Event(0)]).outages == []
    assert events_of(windows.close_idle(5_000).outages) == [("speaks", 0, UNKNOWN_MS, True)]
    assert events_of(fed(windows, [Event(1000)], 1).outages) == [("speaks", 0, UNKNOWN_MS, False)]


def test_a_thousand_groups_that_go_dark_are_a_thousand_events_and_no_rows() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    fed(windows, [Event(0, group=group) for group in range(1000)])
    rows: list[Row] = []
    events: list[Outage] = []
    for step in range(4, 60):
        part = fed(windows, [Event(step * 1000, group=2000)], 996 + step)
        rows += rows_of(part.closed)
        events += [each for each in part.outages if each.kind == "dark"]
    assert len(events) == 1000
    assert {row.ts_ms for row in rows if row.group < 1000} == {0, 1000, 2000, 3000}


# The tracker alone: one sensor per group, max_gap 3, windows of 6 steps; the last character is the closing step.

RULES = Rules(window=6, revise_after=2, max_gap=3, step_ms=1000, model_index=4)


def tracker(*groups: int) -> OutageTracker:
    rings = Rings(1, 6, 1, mean=False)
    rings.start(0)
    rings.rows(np.array(groups, np.int32))
    return OutageTracker(rings, RULES)


def look(step: int, *groups: str) -> LookBack:
    observed = np.array([[[mark == "x" for mark in group.split()]] for group in groups])
    age = np.array([[(*row[::-1].tolist(), True).index(True) for row in group] for group in observed])
    return LookBack(step, observed, age, age[:, 0])


def close(outages: OutageTracker, lookback: LookBack, *, by_clock: bool = False) -> list[Outage]:
    return outages.close_by_clock(lookback) if by_clock else outages.close(lookback)


@pytest.mark.parametrize("by_clock", [False, True])
@pytest.mark.parametrize(
    ("window", "ts_ms", "last_ts_ms"),
    [
        (". . . . . x", 10_000, UNKNOWN_MS),
        (". . x . . .", 7_000, UNKNOWN_MS),
        (
            ". x . . . x",
            6_000,
            UNKNOWN_MS,
        ),  # both readings arrived late: step 6 is in the silence, which lasted up to step 9
        ("x . . . . x", 10_000, 5_000),  # step 5 is before the silence
        ("x x . x . .", 6_000, 5_000),
    ],
)
def test_a_group_returns_at_the_oldest_step_observed_since_its_silence_began(
    window: str, ts_ms: int, last_ts_ms: int, by_clock: bool
) -> None:
    """The group was dark at step 9: nothing had been observed since step 6."""
    assert close(tracker(7), look(10, window), by_clock=by_clock) == [
        Outage(4, 7, "speaks", ts_ms, last_ts_ms, by_clock)
    ]


@pytest.mark.parametrize("by_clock", [False, True])
def test_a_group_goes_dark_at_the_first_step_after_max_gap_silent_steps(by_clock: bool) -> None:
    outages = tracker(7)
    close(outages, look(10, "x . . . . x"), by_clock=by_clock)
    assert close(outages, look(13, ". . x . . ."), by_clock=by_clock) == []
    assert close(outages, look(14, "x x . . . ."), by_clock=by_clock) == [
        Outage(4, 7, "dark", 14_000, 10_000, by_clock)
    ]
    assert close(outages, look(15, "x . . . . ."), by_clock=by_clock) == []


def test_a_group_without_observations_in_the_window_goes_dark_without_a_last_step() -> None:
    outages = tracker(7)
    outages.close(look(0, ". . . . . x"))
    assert outages.close(look(9, ". . . . . .")) == [Outage(4, 7, "dark", 9_000, UNKNOWN_MS, False)]


def reported_dark_too_early() -> OutageTracker:
    """
    step     0  1  2  3  4
    g7       x  .  .  .  .     the wall clock closes step 4: dark; event time has closed step 0
    g8       x  .  .  .  .
    """
    outages = tracker(7, 8)
    assert [event.kind for event in outages.close(look(0, ". . . . . x", ". . . . . x"))] == ["speaks"] * 2
    assert outages.close_by_clock(look(4, ". x . . . .", ". x . . . .")) == [
        Outage(4, group, "dark", 4_000, 0, True) for group in (7, 8)
    ]
    return outages


def test_the_report_of_a_group_is_withdrawn_when_event_time_reaches_its_newer_reading() -> None:
    """
    step     0  1  2  3
    g7       x  x  .  .     withdrawn as step 1 closes
    g8       x  .  x  x     withdrawn as step 2 closes
    """
    outages = reported_dark_too_early()
    assert outages.close(look(1, ". . . . x x", ". . . . x .")) == [Outage(4, 7, "speaks", 1_000, 0, True)]
    assert outages.close(look(2, ". . . x x .", ". . . x . x")) == [Outage(4, 8, "speaks", 2_000, 0, True)]
    assert outages.close(look(3, ". . x x . .", ". . x . x x")) == []


def test_a_withdrawal_states_the_first_step_after_the_last_one_known_at_the_report() -> None:
    outages = reported_dark_too_early()
    assert outages.close(look(2, ". . . x x x", ". . . x . .")) == [Outage(4, 7, "speaks", 1_000, 0, True)]


def test_a_report_that_event_time_confirms_is_not_withdrawn() -> None:
    outages = reported_dark_too_early()
    outages.close(look(1, ". . . . x x", ". . . . x ."))
    assert outages.close(look(5, "x x . . . .", "x . . . . .")) == [
        Outage(4, 7, "dark", 5_000, 1_000, False),
        Outage(4, 8, "dark", 5_000, 0, False),
    ]


def test_each_group_is_whole_or_has_holes_or_is_dark_or_new() -> None:
    windows = PartitionWindows(catalogue(sensors=1, window=12, max_gap=3, revise_after=2))
    (model,) = windows.models
    assert len(states_of(model, slice(0, 9)).state) == 0
    assert list(holed_groups(model)) == []
    sent = [Event(step * 1000, group=group) for step in range(14) for group in range(3) if group or step < 5]
    fed(windows, [each for each in sent if (each.group, each.time_ms) != (2, 9000)] + [Event(14_000, group=3)])
    found = states_of(model, slice(0, 9))
    assert found.state.tolist() == [GroupState.DARK, GroupState.WHOLE, GroupState.HOLES, GroupState.NEW]
    assert (found.missing[1:].tolist(), found.silent_steps.tolist()) == ([0, pytest.approx(1 / 12), 0], [9, 0, 0, -1])
    assert states_of(model, slice(2, 3)).state.tolist() == [GroupState.HOLES]
    assert list(holed_groups(model)) == [1]
