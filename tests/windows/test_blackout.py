"""Steps that the wall clock closes while nothing arrives."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.windows.partition import PartitionWindows
from tests.event_time import NAN, by_group, by_key, catalogues, fed, feed, near_events
from tests.reference import ReferenceWindows
from tests.support import Event, Row, catalogue, rows_of


def idle(windows: PartitionWindows, now_ms: int) -> list[Row]:
    return rows_of(windows.close_idle(now_ms).closed)


def steps(rows: list[Row]) -> list[int]:
    return [row.ts_ms // 1000 for row in rows]


def test_the_wall_clock_closes_open_steps_provisionally_and_once() -> None:
    """
    step      0     1
    s0        5     6      nothing more arrives: after idle_timeout both are published
    s1        .     .
    """
    windows = PartitionWindows(catalogue())
    feed(windows, [Event(0, 5.0), Event(1000, 6.0)])
    assert idle(windows, 4_999) == []
    assert [(row.ts_ms, row.sensor, row.value) for row in idle(windows, 5_000)] == [(1000, 0, 6.0), (1000, 1, None)]
    assert idle(windows, 5_999) == []
    (row,) = feed(windows, [Event(2000, 7.0)])
    assert (row.ts_ms, row.sensor, row.revision, row.final) == (1000, 1, 0, True), (
        "only the final row of the hole follows"
    )


def test_a_blackout_emits_rows_step_by_step_until_max_gap_has_passed() -> None:
    """
    event time    0     1     2     3     4     5
    s0            5     .     .     .     .     .     max_gap 3, lateness 0, idle_timeout 5 s
    wall clock    0     7     8     9    (10: dark)
    """
    windows = PartitionWindows(catalogue(sensors=1))
    feed(windows, [Event(0, 5.0)])
    published = {second: steps(idle(windows, second * 1000)) for second in range(5, 15)}
    assert {second: found for second, found in published.items() if found} == {5: [0], 7: [1], 8: [2], 9: [3]}
    assert idle(windows, 10**9) == []


def test_the_wall_clock_allows_for_the_lateness() -> None:
    """Step 1 ends at 2 s and closes after 2 s of lateness and 5 s of idle timeout."""
    windows = PartitionWindows(catalogue(sensors=1, lateness_s=2))
    feed(windows, [Event(0, 5.0)])
    assert {now_ms: steps(idle(windows, now_ms)) for now_ms in (4_999, 5_000, 8_999, 9_000)} == {
        4_999: [],
        5_000: [0],
        8_999: [],
        9_000: [1],
    }


def test_a_blackout_that_is_noticed_late_emits_all_its_rows_at_once() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    feed(windows, [Event(0, 5.0)])
    rows = idle(windows, 10**9)
    assert [(row.ts_ms // 1000, row.gap_age, row.final, row.window is not None) for row in rows] == [
        (0, 0, True, False),
        (1, 1, False, True),
        (2, 2, False, True),
        (3, 3, False, True),
    ]


def test_after_a_blackout_event_time_emits_only_the_final_rows() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    feed(windows, [Event(0, 5.0)])
    idle(windows, 10**9)
    rows = feed(windows, [Event(30_000, 6.0)])
    assert [(row.ts_ms // 1000, row.revision, row.final, row.lag) for row in rows] == [
        (1, 1, True, 2),
        (2, 1, True, 2),
        (3, 1, True, 2),
    ]


def test_readings_delayed_by_a_blackout_replace_the_first_rows() -> None:
    """Their steps are published but still open in event time, so revision 0 is published again, now observed."""
    windows = PartitionWindows(catalogue(sensors=1))
    feed(windows, [Event(0, 5.0)])
    idle(windows, 10**9)
    (row,) = feed(windows, [Event(1000, 6.0)])
    assert (row.ts_ms, row.revision, row.observed, row.final, row.value) == (1000, 0, True, True, 6.0)
    (row,) = feed(windows, [Event(1500, 6.5)])
    assert (row.revision, row.value) == (0, 6.5)
    assert feed(windows, [Event(2000, 7.0), Event(3000, 8.0)])[0].revision == 0
    (row,) = feed(windows, [Event(1600, 9.0)])
    assert (row.revision, row.value) == (3, 9.0), "event time has closed the step"


def test_after_a_crash_the_rows_of_the_next_worker_replace_the_idle_rows() -> None:
    """The next worker does not know what the wall clock closed, and must not publish a lower revision."""
    first, second = PartitionWindows(catalogue(sensors=1)), PartitionWindows(catalogue(sensors=1))
    feed(first, [Event(0, 5.0)])
    idle(first, 5_000)
    (before,) = feed(first, [Event(100, 6.0)])
    (after,) = feed(second, [Event(0, 5.0), Event(100, 6.0), Event(200, 7.0), Event(1000)])
    assert (before.revision, before.value) == (0, 6.0)
    assert (after.revision, after.value) == (0, 7.0)


@pytest.mark.parametrize("base_ms", [-1000, 0, 1000, -100_000])
def test_idle_closing_works_before_and_after_the_epoch(base_ms: int) -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    feed(windows, [Event(base_ms, 5.0)])
    assert [row.ts_ms for row in idle(windows, 6_000)] == [base_ms]
    assert idle(windows, 6_500) == []
    assert feed(windows, [Event(base_ms + 1000, 6.0)]) == []
    (row,) = feed(windows, [Event(base_ms + 10, 7.0)])
    assert (row.revision, row.value) == (3, 7.0)


def test_the_end_of_the_input_closes_the_steps_up_to_the_newest_reading() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    feed(windows, [Event(0, 5.0), Event(3000, 6.0, produced_ms=1000)])
    assert steps(rows_of(windows.close_end().closed)) == [1, 2, 3]
    assert windows.close_end().closed == []
    assert PartitionWindows(catalogue()).close_end().closed == []


def test_without_an_observation_there_is_nothing_to_close() -> None:
    windows = PartitionWindows(catalogue())
    assert idle(windows, 10**9) == []
    feed(windows, [Event(0, NAN)])
    assert idle(windows, 10**9) == []


pauses = st.dictionaries(st.integers(0, 40), st.sampled_from([4_000, 5_000, 7_300, 11_000, 10**6]))


@given(catalogues(), near_events, pauses)
@settings(max_examples=100)
def test_idle_closing_agrees_with_the_reference(
    rules: Catalogue, sequence: list[Event], pause_after: dict[int, int]
) -> None:
    windows, reference = PartitionWindows(rules), ReferenceWindows(rules, sensors=2)
    rows: list[Row] = []
    outages = []
    for n, event in enumerate(sequence):
        part = fed(windows, [event], n)
        rows += rows_of(part.closed)
        outages += part.outages
        reference.feed(event, n)
        for idle_ms in (pause_after.get(n, 0) // 2, pause_after.get(n, 0)):
            part = windows.close_idle(idle_ms)
            rows += rows_of(part.closed)
            outages += part.outages
            if idle_ms >= 5_000:
                reference.close_idle(idle_ms)
    assert by_key(rows) == by_key(reference.rows)
    assert by_group(outages) == by_group(reference.outages)


@given(catalogues(), near_events, pauses)
@settings(max_examples=100)
def test_idle_closing_changes_only_provisional_rows(
    rules: Catalogue, sequence: list[Event], pause_after: dict[int, int]
) -> None:
    """Final rows and outages by event time are the same as without the wall clock."""
    sequence = [*sequence, Event(10**9, NAN)]
    plain = fed(PartitionWindows(rules), sequence)
    windows = PartitionWindows(rules)
    rows: list[Row] = []
    outages = []
    for n, event in enumerate(sequence):
        for part in (fed(windows, [event], n), windows.close_idle(pause_after.get(n, 0))):
            rows += rows_of(part.closed)
            outages += part.outages
    expected = rows_of(plain.closed)
    assert [each for each in by_group(outages) if not each.by_clock] == by_group(plain.outages)
    assert {(row.key, row.revision) for row in expected if row.revision > 2} == {
        (row.key, row.revision) for row in rows if row.revision > 2
    }
    last: dict[tuple[int, int, int, int], Row] = {}
    for row in rows:
        if row.key not in last or row.revision >= last[row.key].revision:
            last[row.key] = row
    for row in expected:
        if row.final:
            found = last[row.key]
            assert (found.value, found.observed, found.final, found.gap_age, found.stamp) == (
                row.value, row.observed, True, row.gap_age, row.stamp,
            ) or found.revision > row.revision  # fmt: skip


@given(catalogues(), near_events, pauses)
@settings(max_examples=100)
def test_every_provisional_hole_gets_exactly_one_final_row(
    rules: Catalogue, sequence: list[Event], pause_after: dict[int, int]
) -> None:
    windows = PartitionWindows(rules)
    rows: list[Row] = []
    for n, event in enumerate([*sequence, Event(10**9, NAN)]):
        for part in (fed(windows, [event], n), windows.close_idle(pause_after.get(n, 0))):
            rows += rows_of(part.closed)
    holes = {row.key for row in rows if not row.final}
    assert holes == {row.key for row in rows if not row.final and row.revision == 0}
    observed = {row.key for row in rows if row.observed}
    finals = [row.key for row in rows if row.final and row.revision == 1]
    assert len(finals) == len(set(finals))
    final_holes = {row.key for row in rows if row.final and not row.observed}
    assert holes - observed <= final_holes
