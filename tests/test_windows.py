"""The window rules, by example and against a slow model of them that holds no ring."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glaim_stream.catalogue import Catalogue, parse_catalogue
from glaim_stream.windows import PartitionWindows
from tests.reference import ReferenceWindows
from tests.support import STEP_MS, Event, Row, catalogue, columns, rows_of

NAN = math.nan

times = st.one_of(
    st.integers(-3, 12).map(lambda step: step * STEP_MS),  # step edges
    st.integers(-4_000, 14_000),
    st.integers(-2_000, 40_000),  # jumps further than a window
    st.sampled_from([-1_500_000_000_000, 1_700_000_000_000]),  # huge jumps
)
# Small whole numbers: sums are exact in any order, so that `mean` does not depend on the order of arrival.
values = st.one_of(st.integers(-8, 8).map(float), st.just(NAN))
events = st.lists(
    st.builds(Event, times, values, group=st.integers(0, 2), sensor=st.integers(0, 1), quality=st.integers(0, 1)),
    max_size=40,
)
catalogues = st.builds(
    catalogue,
    bucket=st.sampled_from(["last", "mean"]),
    lateness_s=st.sampled_from([0, 0.5, 2, 3.25]),
    revise_after=st.sampled_from([0, 1, 2]),
    max_gap=st.sampled_from([1, 3]),
)


def feed(windows: PartitionWindows, batch: list[Event], first_offset: int = 0) -> list[Row]:
    return rows_of(windows.feed(columns(batch, first_offset=first_offset), arrival_ms=0).closed)


def feed_one_by_one(windows: PartitionWindows, sequence: list[Event], first_offset: int = 0) -> list[Row]:
    return [row for n, event in enumerate(sequence) for row in feed(windows, [event], first_offset + n)]


def by_key(rows: list[Row]) -> list[Row]:
    """In one order; rows of the same step may come group by group in any."""
    return sorted(rows, key=lambda row: (*row.key, row.revision))


def newest(rows: list[Row]) -> dict[tuple[int, int, int, int], Row]:
    """The last word on each cell."""
    kept: dict[tuple[int, int, int, int], Row] = {}
    for row in rows:
        if row.key not in kept or row.revision >= kept[row.key].revision:
            kept[row.key] = row
    return kept


# By example


def test_a_step_closes_when_the_first_reading_beyond_it_arrives() -> None:
    """
    step      0     1     2
    s0        5     .     7
    s1        .     .     .     silent since ever: null, not invented
              closed when the reading of step 1 (a dropout) comes
    """
    windows = PartitionWindows(catalogue())
    assert feed(windows, [Event(0, 5.0)]) == []
    rows = feed(windows, [Event(1000, NAN)])
    assert [(row.ts_ms, row.sensor, row.value, row.observed, row.final) for row in rows] == [
        (0, 0, 5.0, True, True),
        (0, 1, None, False, True),
    ]
    assert rows[1].window is None
    rows = feed(windows, [Event(2000, 7.0)])
    assert (rows[0].ts_ms, rows[0].gap_age, rows[0].observed, rows[0].final) == (1000, 1, False, False)
    assert rows[0].window is not None


def test_a_hole_is_provisional_first_and_final_after_revise_after_steps() -> None:
    """
    step      0     1     2     3     4
    s0        5     .     7     8     9
                    |           |
                    rev 0       rev 1, with two steps of right context
    """
    windows = PartitionWindows(catalogue(sensors=1))
    rows = feed(windows, [Event(0, 5.0), Event(2000, 7.0), Event(3000, 8.0), Event(4000, 9.0)])
    hole = [row for row in rows if row.ts_ms == 1000]
    assert [(row.revision, row.final, row.lag, row.gap_age) for row in hole] == [(0, False, 0, 1), (1, True, 2, 1)]


def test_a_gap_longer_than_max_gap_is_null_and_final_at_once() -> None:
    """
    step      0     1     2     3     4     5
    s0        5     .     .     .     .     .      max_gap 3
                    1     2     3     null  null
    """
    windows = PartitionWindows(catalogue(sensors=1))
    rows = feed(windows, [Event(0, 5.0), Event(6000, NAN)])
    first = {row.ts_ms // 1000: row for row in rows if row.revision == 0}
    assert [first[step].window is not None for step in range(6)] == [False, True, True, True, False, False]
    assert [first[step].final for step in range(6)] == [True, False, False, False, True, True]


def test_a_reading_that_comes_late_but_within_the_window_corrects_its_step() -> None:
    """
    step      0     1     2     3
    s0        5     .     7
                    ^ 6 arrives after step 1 was published as a hole
    """
    windows = PartitionWindows(catalogue(sensors=1))
    feed(windows, [Event(0, 5.0), Event(2000, 7.0)])
    (row,) = feed(windows, [Event(1000, 6.0)])
    assert row == Row(0, 1000, 0, 0, 3, True, 6.0, 0, True)
    rows = feed(windows, [Event(4000, 9.0)])
    assert not [row for row in rows if row.ts_ms == 1000], "what was observed needs no final estimate"


def test_the_same_late_reading_again_corrects_nothing() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    feed(windows, [Event(0, 5.0), Event(2000, 7.0), Event(1000, 6.0)])
    assert feed(windows, [Event(1000, 6.0), Event(1000, 6.0)]) == []


def test_a_dead_letter_sent_back_is_published_though_a_rebuild_has_it_already() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    feed(windows, [Event(0, 5.0), Event(1000, 6.0), Event(3000, 7.0)])
    (row,) = feed(windows, [Event(1000, 6.0, requeued=True)])
    assert row == Row(0, 1000, 0, 0, 3, True, 6.0, 0, True)


def test_every_correction_of_a_cell_in_one_batch_is_a_row() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    feed(windows, [Event(0, 5.0), Event(2000, 7.0)])
    rows = feed(windows, [Event(1000, 6.0), Event(1100, 6.5), Event(1050, 9.0)])
    assert [(row.revision, row.value) for row in rows] == [(3, 6.0), (4, 6.5)]


def test_a_reading_older_than_the_window_is_too_late() -> None:
    windows = PartitionWindows(catalogue())
    feed(windows, [Event(10_000)])
    fed = windows.feed(columns([Event(4_000), Event(3_999)], first_offset=1), arrival_ms=0)
    assert fed.too_late.offset.tolist() == [2]


def test_how_late_a_reading_is_counts_from_the_watermark_that_it_met() -> None:
    windows = PartitionWindows(catalogue(lateness_s=2))
    events = [Event(20_000), Event(1_000), Event(30_000), Event(1_000), Event(29_000)]
    fed = windows.feed(columns(events), arrival_ms=0)
    assert (fed.too_late.offset.tolist(), fed.late_by_ms.tolist()) == ([1, 3], [17_000, 27_000])


def test_a_group_that_is_wholly_dark_for_a_window_yields_nothing_any_more() -> None:
    windows = PartitionWindows(catalogue())
    rows = feed(windows, [Event(0), Event(100_000, group=1)])
    assert max(row.ts_ms for row in rows if row.group == 0) == 5_000


def test_a_constant_sensor_passes_through_unchanged() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    rows = feed(windows, [Event(step * 1000, 3.0) for step in range(20)])
    assert [row.value for row in rows] == [3.0] * 19


@pytest.mark.parametrize("batch", [[], [Event(0, NAN)], [Event(0, NAN), Event(50_000, NAN)]])
def test_nothing_observed_publishes_nothing(batch: list[Event]) -> None:
    windows = PartitionWindows(catalogue())
    assert feed(windows, batch) == []
    assert windows.close_idle(10**9).closed == []


def test_of_equal_stamps_the_later_arrival_stands() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    assert feed(windows, [Event(500, 1.0), Event(500, 2.0), Event(400, 3.0), Event(1000)])[0].value == 2.0


def test_mean_is_over_all_readings_of_the_step() -> None:
    windows = PartitionWindows(catalogue(sensors=1, bucket="mean"))
    assert feed(windows, [Event(0, 1.0), Event(500, 2.0), Event(400, 6.0), Event(1000)])[0].value == 3.0


def test_one_model_moves_the_clock_of_another_in_the_partition() -> None:
    two = parse_catalogue(
        {
            "models": [
                {"name": name, "sensors": [{"id": "s0"}], "step_s": 1, "window": 6, "revise_after": 1, "max_gap": 3}
                for name in ("a", "b")
            ],
            "groups": [{"model": "a", "pattern": "a*"}, {"model": "b", "pattern": "b*"}],
        },
        source="test",
    )
    windows = PartitionWindows(two)
    rows = feed(windows, [Event(0, 5.0, model=0), Event(1000, 6.0, group=1, model=1)])
    assert [(row.model, row.ts_ms, row.value) for row in rows] == [(0, 0, 5.0)]


# Idleness


def test_the_wall_clock_closes_open_steps_provisionally_and_once() -> None:
    """
    step      0     1
    s0        5     6      nothing more comes: after idle_timeout both are published
    s1        .     .
    """
    windows = PartitionWindows(catalogue())
    feed(windows, [Event(0, 5.0), Event(1000, 6.0)])
    assert windows.close_idle(4_999).closed == []
    rows = rows_of(windows.close_idle(5_000).closed)
    assert [(row.ts_ms, row.sensor, row.value) for row in rows] == [(1000, 0, 6.0), (1000, 1, None)]
    assert windows.close_idle(60_000).closed == []
    (row,) = feed(windows, [Event(2000, 7.0)])
    assert (row.ts_ms, row.sensor, row.revision, row.final) == (1000, 1, 1, True), "only the last word on the hole"


@pytest.mark.parametrize("base_ms", [-1000, 0, 1000, -100_000])
def test_idle_closing_works_on_both_sides_of_the_epoch(base_ms: int) -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    feed(windows, [Event(base_ms, 5.0)])
    assert [row.ts_ms for row in rows_of(windows.close_idle(10_000).closed)] == [base_ms]
    assert windows.close_idle(20_000).closed == []
    assert feed(windows, [Event(base_ms + 1000, 6.0)]) == []
    (row,) = feed(windows, [Event(base_ms + 10, 7.0)])
    assert (row.revision, row.value) == (3, 7.0)


def test_a_reading_of_a_step_that_idleness_published_is_a_correction() -> None:
    windows = PartitionWindows(catalogue())
    feed(windows, [Event(0, 5.0)])
    windows.close_idle(5_000)
    (row,) = feed(windows, [Event(0, 8.0, sensor=1)])
    assert (row.sensor, row.revision, row.value, row.final) == (1, 3, 8.0, True)


@given(catalogues, events, st.sets(st.integers(0, 40)))
def test_idle_closing_agrees_with_the_reference(rules: Catalogue, sequence: list[Event], idle_after: set[int]) -> None:
    sequence = [event for event in sequence if abs(event.time_ms) < 10**9]
    windows, reference = PartitionWindows(rules), ReferenceWindows(rules, sensors=2)
    rows: list[Row] = []
    for n, event in enumerate(sequence):
        rows += feed(windows, [event], n)
        reference.feed(event, n)
        if n in idle_after:
            rows += rows_of(windows.close_idle(10**6).closed)
            reference.close_idle()
    assert by_key(rows) == by_key(reference.rows)


# Properties


@given(catalogues, events)
@settings(max_examples=200)
def test_windows_agree_with_the_reference(rules: Catalogue, sequence: list[Event]) -> None:
    sequence = [event for event in sequence if abs(event.time_ms) < 10**9]  # the reference visits every step
    windows, reference = PartitionWindows(rules), ReferenceWindows(rules, sensors=2)
    fed = windows.feed(columns(sequence), arrival_ms=0)
    for offset, event in enumerate(sequence):
        reference.feed(event, offset)
    assert by_key(rows_of(fed.closed)) == by_key(reference.rows)
    assert len(fed.too_late) == len(reference.too_late)
    assert fed.dropouts == sum(math.isnan(event.value) for event in sequence)
    if sequence:
        lowest = reference.lowest_offset()
        assert windows.rebuild_from(10**6) == (10**6 if lowest is None else lowest)


@given(catalogues, events, st.lists(st.integers(0, 40), max_size=6))
def test_how_the_broker_cuts_batches_changes_no_row(rules: Catalogue, sequence: list[Event], cuts: list[int]) -> None:
    edges = sorted({0, len(sequence), *(cut for cut in cuts if cut < len(sequence))})
    windows = PartitionWindows(rules)
    in_parts = [row for start, end in pairwise(edges) for row in feed(windows, sequence[start:end], start)]
    assert in_parts == feed_one_by_one(PartitionWindows(rules), sequence)
    assert in_parts == feed(PartitionWindows(rules), sequence)


@given(catalogues, events, st.randoms(use_true_random=False))
def test_arrival_order_within_the_lateness_changes_no_last_word(
    rules: Catalogue, sequence: list[Event], random: object
) -> None:
    """Sorted by time and by time plus a delay below the lateness: the same readings, the same last words."""
    unique = {(event.time_ms, event.group, event.sensor): event for event in sequence if abs(event.time_ms) < 10**9}
    in_time = sorted(unique.values(), key=lambda event: event.time_ms)
    lateness_ms = rules.models[0].lateness_ms
    delayed = sorted(in_time, key=lambda event: event.time_ms + random.uniform(0, lateness_ms))  # type: ignore[attr-defined]
    end = [Event(10**6, NAN)]
    ordered = feed(PartitionWindows(rules), in_time + end)
    shuffled = feed(PartitionWindows(rules), delayed + end)
    assert newest(ordered) == newest(shuffled)


@given(catalogues, events)
def test_every_reading_ends_somewhere(rules: Catalogue, sequence: list[Event]) -> None:
    """Observed in the output, superseded in its step by another reading, a dropout, or too late."""
    windows = PartitionWindows(rules)
    fed = windows.feed(columns(sequence), arrival_ms=0)
    rows = rows_of(fed.closed)
    flush = Event(max((event.time_ms for event in sequence), default=0) + 100_000, NAN)
    rows += feed(windows, [flush], len(sequence))
    observed = newest([row for row in rows if row.observed])
    late = set(fed.too_late.offset.tolist())
    for offset, event in enumerate(sequence):
        if offset in late or math.isnan(event.value):
            continue
        row = observed[(0, event.group, event.sensor, event.time_ms // STEP_MS * STEP_MS)]
        others = [
            other.value
            for n, other in enumerate(sequence)
            if n not in late
            and (other.group, other.sensor) == (event.group, event.sensor)
            and other.time_ms // STEP_MS == event.time_ms // STEP_MS
            and not math.isnan(other.value)
        ]
        if rules.models[0].bucket == "last":
            assert row.value in others
        else:
            assert row.value == pytest.approx(sum(others) / len(others))


@given(catalogues, events, st.integers(0, 40))
@settings(max_examples=200)
def test_a_rebuild_from_the_lowest_offset_continues_as_if_nothing_had_happened(
    rules: Catalogue, sequence: list[Event], split: int
) -> None:
    split = min(split, len(sequence))
    whole = PartitionWindows(rules)
    feed(whole, sequence[:split])
    rebuild_from = whole.rebuild_from(split)
    assert 0 <= rebuild_from <= split

    rebuilt = PartitionWindows(rules)
    feed(rebuilt, sequence[rebuild_from:split], rebuild_from)
    assert rebuilt.rebuild_from(split) == rebuild_from

    rest = [*sequence[split:], Event(10**13, NAN)]
    assert by_key(feed(rebuilt, rest, split)) == by_key(feed(whole, rest, split))
    assert rebuilt.rebuild_from(10**6) == whole.rebuild_from(10**6)
