"""Groups that fall silent, and speak again."""

from __future__ import annotations

from glaim_stream.windows.outages import UNKNOWN_MS, Outage
from glaim_stream.windows.partition import PartitionWindows
from tests.event_time import fed
from tests.support import Event, Row, catalogue, rows_of


def told(outages: list[Outage], group: int = 0) -> list[tuple[str, int, int, bool]]:
    return [(each.kind, each.ts_ms, each.last_ts_ms, each.by_clock) for each in outages if each.group == group]


def test_a_group_speaks_goes_dark_and_speaks_again() -> None:
    """
    step      0     1     2     3     4     5     6     7     8
    g0        5     6     .     .     .     .     .     .     7     max_gap 3
              speaks                        dark              speaks
    """
    windows = PartitionWindows(catalogue(window=12, revise_after=2))
    first = fed(windows, [Event(0, 5.0), Event(1000, 6.0), *(Event(step * 1000, group=1) for step in range(2, 8))])
    assert told(first.outages) == [("speaks", 0, UNKNOWN_MS, False), ("dark", 5000, 1000, False)]
    again = fed(windows, [Event(8000, 7.0), Event(9000, group=1)], 8)
    assert told(again.outages) == [("speaks", 8000, 1000, False)]
    rows = [row for part in (first, again) for row in rows_of(part.closed) if row.group == 0]
    assert max(row.ts_ms for row in rows_of(first.closed) if row.group == 0) == 4000, "and then no more rows"
    assert {row.ts_ms for row in rows if not row.final} <= {row.ts_ms for row in rows if row.revision == 1}


def test_a_single_silent_sensor_is_no_outage_and_keeps_its_null_rows() -> None:
    windows = PartitionWindows(catalogue())
    part = fed(windows, [Event(0, sensor=1), *(Event(step * 1000) for step in range(10))])
    assert told(part.outages) == [("speaks", 0, UNKNOWN_MS, False)]
    assert [
        row.ts_ms for row in rows_of(part.closed) if row.sensor == 1 and row.window is None and not row.observed
    ] == [step * 1000 for step in range(4, 9)]


def test_a_late_reading_ends_a_darkness_when_the_next_step_closes() -> None:
    """
    step      0     1     2     3     4     5
    g0        5     .     .     .     .           step 4 closes: dark. Then a reading of step 3 comes
    """
    windows = PartitionWindows(catalogue())
    assert told(fed(windows, [Event(0), Event(5000, group=1)]).outages)[-1] == ("dark", 4000, 0, False)
    late = fed(windows, [Event(3000), Event(6000, group=1)], 2)
    assert told(late.outages) == [("speaks", 3000, 0, False)]


def test_the_wall_clock_claims_a_darkness_and_event_time_confirms_it() -> None:
    windows = PartitionWindows(catalogue(window=40))
    fed(windows, [Event(0), Event(1000)])
    claim = windows.close_idle(10**6)
    assert told(claim.outages) == [("dark", 5000, 1000, True)]
    assert told(windows.close_idle(2 * 10**6).outages) == []
    after = fed(windows, [Event(20_000), Event(21_000)], 2)
    assert told(after.outages) == [("dark", 5000, 1000, False), ("speaks", 20_000, 1000, False)]


def test_event_time_takes_the_clocks_claim_back_when_readings_had_only_waited() -> None:
    windows = PartitionWindows(catalogue(window=40))
    fed(windows, [Event(0), Event(1000)])
    assert told(windows.close_idle(10**6).outages) == [("dark", 5000, 1000, True)]
    caught_up = fed(windows, [Event(step * 1000) for step in range(2, 12)], 2)
    assert told(caught_up.outages) == [("speaks", 2000, 1000, True)]


def test_a_clock_that_hears_a_group_before_event_time_does_says_so() -> None:
    windows = PartitionWindows(catalogue(window=40))
    assert fed(windows, [Event(0)]).outages == []
    assert told(windows.close_idle(5_000).outages) == [("speaks", 0, UNKNOWN_MS, True)]
    assert told(fed(windows, [Event(1000)], 1).outages) == [("speaks", 0, UNKNOWN_MS, False)]


def test_a_thousand_groups_that_go_dark_are_a_thousand_events_and_no_rows() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    fed(windows, [Event(0, group=group) for group in range(1000)])
    rows: list[Row] = []
    events = []
    for step in range(4, 60):
        part = fed(windows, [Event(step * 1000, group=2000)], 996 + step)
        rows += rows_of(part.closed)
        events += [each for each in part.outages if each.kind == "dark"]
    assert len(events) == 1000
    assert {row.ts_ms for row in rows if row.group < 1000} == {0, 1000, 2000, 3000}
