"""The window rules, by example and compared with a slow reference without rings."""

import copy
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glaim_stream.core.catalogue import Catalogue, parse_catalogue
from glaim_stream.windows.partition import PartitionWindows
from tests.event_time import NAN, by_group, by_key, catalogues, events, fed, feed, in_batches, near_events, newest
from tests.reference import ReferenceWindows
from tests.support import STEP_MS, Event, Row, catalogue, rows_of

# By example


def test_a_step_closes_when_the_first_reading_beyond_it_arrives() -> None:
    """
    step      0     1     2
    s0        5     .     7
    s1        .     .     .     never observed: null, not invented
              closed when the reading of step 1 (a dropout) arrives
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
    s1        1     1     1     1     1     1
    """
    windows = PartitionWindows(catalogue())
    rows = feed(windows, [Event(0, 5.0), *(Event(step * 1000, sensor=1) for step in range(7))])
    first = {row.ts_ms // 1000: row for row in rows if row.revision == 0 and row.sensor == 0}
    assert [first[step].window is not None for step in range(6)] == [False, True, True, True, False, False]
    assert [first[step].final for step in range(6)] == [True, False, False, False, True, True]


def test_a_late_reading_within_the_window_corrects_its_step() -> None:
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
    assert not [row for row in rows if row.ts_ms == 1000], "an observed step needs no final estimate"


def test_a_repeated_late_reading_corrects_nothing() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    feed(windows, [Event(0, 5.0), Event(2000, 7.0), Event(1000, 6.0)])
    assert feed(windows, [Event(1000, 6.0), Event(1000, 6.0)]) == []


def test_a_requeued_dead_letter_is_published_even_if_a_rebuild_has_applied_it() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    feed(windows, [Event(0, 5.0), Event(1000, 6.0), Event(3000, 7.0)])
    (row,) = feed(windows, [Event(1000, 6.0, requeued=True)])
    assert row == Row(0, 1000, 0, 0, 3, True, 6.0, 0, True)


def test_each_correction_of_a_cell_in_one_batch_emits_a_row() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    feed(windows, [Event(0, 5.0), Event(2000, 7.0)])
    rows = feed(windows, [Event(1000, 6.0), Event(1100, 6.5), Event(1050, 9.0)])
    assert [(row.revision, row.value) for row in rows] == [(3, 6.0), (4, 6.5)]


def test_a_reading_older_than_the_window_is_too_late() -> None:
    windows = PartitionWindows(catalogue())
    feed(windows, [Event(10_000)])
    late = fed(windows, [Event(4_000), Event(3_999)], 1).rejects
    assert [each.offset for each in late] == [2]


def test_lateness_is_measured_from_the_watermark_at_arrival() -> None:
    windows = PartitionWindows(catalogue(lateness_s=2))
    events = [Event(20_000), Event(1_000), Event(30_000), Event(1_000), Event(29_000)]
    late = fed(windows, events).rejects
    assert [(each.offset, each.late_by_ms) for each in late] == [(1, 17_000), (3, 27_000)]


def test_a_dark_group_emits_no_more_rows() -> None:
    windows = PartitionWindows(catalogue())
    rows = feed(windows, [Event(0), Event(100_000, group=1)])
    assert max(row.ts_ms for row in rows if row.group == 0) == 3_000, "max_gap is 3"


def test_a_constant_sensor_passes_through_unchanged() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    rows = feed(windows, [Event(step * 1000, 3.0) for step in range(20)])
    assert [row.value for row in rows] == [3.0] * 19


@pytest.mark.parametrize("batch", [[], [Event(0, NAN)], [Event(0, NAN), Event(50_000, NAN)]])
def test_without_observations_nothing_is_published(batch: list[Event]) -> None:
    windows = PartitionWindows(catalogue())
    assert feed(windows, batch) == []
    assert windows.close_idle(10**9).closed == []


def test_the_later_arrival_wins_if_two_readings_have_the_same_time() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    assert feed(windows, [Event(500, 1.0), Event(500, 2.0), Event(400, 3.0), Event(1000)])[0].value == 2.0


def test_the_mean_includes_all_readings_of_the_step() -> None:
    windows = PartitionWindows(catalogue(sensors=1, bucket="mean"))
    assert feed(windows, [Event(0, 1.0), Event(500, 2.0), Event(400, 6.0), Event(1000)])[0].value == 3.0


def test_readings_that_change_nothing_are_superseded() -> None:
    windows = PartitionWindows(catalogue(sensors=1))
    opened = fed(windows, [Event(0, 1.0), Event(500, 2.0), Event(500, 3.0), Event(400, 4.0), Event(0, NAN)])
    assert (opened.superseded, opened.dropouts) == (3, 1)
    late = fed(windows, [Event(3000, 5.0), Event(500, 3.0), Event(600, 6.0), Event(100, 7.0)], 5)
    assert (late.superseded, late.dropouts) == (2, 0)
    assert fed(windows, [Event(4000, 8.0), Event(5000, 9.0)], 9).superseded == 0


@pytest.mark.parametrize(("lateness_s", "closes_at_ms"), [(0, 1000), (2, 3000), (0.5, 1500)])
def test_a_step_closes_when_the_watermark_reaches_its_end(lateness_s: float, closes_at_ms: int) -> None:
    windows = PartitionWindows(catalogue(sensors=1, lateness_s=lateness_s))
    assert feed(windows, [Event(0, 5.0), Event(closes_at_ms - 1, 6.0)]) == []
    assert feed(windows, [Event(closes_at_ms, 7.0)])[0].ts_ms == 0


def test_the_hole_of_a_dropout_has_the_quality_bad() -> None:
    windows = PartitionWindows(catalogue())
    rows = feed(windows, [Event(0, 5.0), Event(1000, NAN), Event(1000, 1.0, sensor=1), Event(2000, 6.0)])
    assert {(row.ts_ms, row.sensor): row.quality for row in rows} == {
        (0, 0): 0, (0, 1): 0, (1000, 0): 2, (1000, 1): 0,
    }  # fmt: skip


def test_a_group_that_was_silent_for_a_window_is_dropped_when_the_next_window_starts() -> None:
    """Windows have 6 steps: the reading of step 0 leaves as step 6 closes, and step 12 starts the next window."""
    windows = PartitionWindows(catalogue(sensors=1))
    feed(windows, [Event(0), *(Event(step * 1000, group=1) for step in range(12))])
    assert windows.groups == 2
    feed(windows, [Event(12_000, group=1)])
    assert windows.groups == 1


def test_a_rebuild_emits_no_rows_and_restores_the_windows() -> None:
    events = [Event(0, 5.0), Event(1000, 6.0), Event(3000, 7.0)]
    live, rebuilt = PartitionWindows(catalogue(sensors=1)), PartitionWindows(catalogue(sensors=1))
    assert not rebuilt.rebuilding
    rebuilt.rebuilding = True
    assert rebuilt.rebuilding
    assert len(feed(live, events)) == 3
    assert feed(rebuilt, events) == []
    rebuilt.rebuilding = False
    assert feed(rebuilt, [Event(6000, 8.0)]) == feed(live, [Event(6000, 8.0)]) != []


def test_each_model_applies_its_lateness_to_its_readings() -> None:
    models = [
        {"name": name, "sensors": [{"id": "s0"}], "step_s": 1, "window": 4, "revise_after": 1, "max_gap": 2,
         "lateness_s": lateness_s}
        for name, lateness_s in (("a", 0), ("b", 3))
    ]  # fmt: skip
    groups = [{"model": name, "pattern": f"{name}*"} for name in ("a", "b")]
    windows = PartitionWindows(parse_catalogue({"models": models, "groups": groups}, source="test"))
    late = fed(windows, [Event(20_000), Event(1_000), Event(2_000, group=1, model=1), Event(13_000, group=1, model=1)])
    assert [(each.offset, each.late_by_ms) for each in late.rejects] == [(1, 19_000), (2, 15_000)]


def test_models_in_one_partition_share_the_event_clock() -> None:
    rules = parse_catalogue(
        {
            "models": [
                {"name": name, "sensors": [{"id": "s0"}], "step_s": 1, "window": 6, "revise_after": 1, "max_gap": 3}
                for name in ("a", "b")
            ],
            "groups": [{"model": "a", "pattern": "a*"}, {"model": "b", "pattern": "b*"}],
        },
        source="test",
    )
    windows = PartitionWindows(rules)
    rows = feed(windows, [Event(0, 5.0, model=0), Event(1000, 6.0, group=1, model=1)])
    assert [(row.model, row.ts_ms, row.value) for row in rows] == [(0, 0, 5.0)]


# Properties


@given(catalogues(), near_events)
@settings(max_examples=150)
def test_windows_agree_with_the_reference(rules: Catalogue, sequence: list[Event]) -> None:
    windows, reference = PartitionWindows(rules), ReferenceWindows(rules, sensors=2)
    result = fed(windows, sequence)
    for offset, event in enumerate(sequence):
        reference.feed(event, offset)
    assert by_key(rows_of(result.closed)) == by_key(reference.rows)
    assert by_group(result.outages) == by_group(reference.outages)
    assert result.skewed == reference.skewed
    assert len(result.rejects) == len(reference.too_late)
    assert result.dropouts == sum(math.isnan(event.value) for event in sequence)
    if sequence:
        lowest = reference.lowest_offset()
        assert windows.rebuild_from(10**6) == (10**6 if lowest is None else lowest)


@given(catalogues(), events, st.lists(st.integers(0, 40), max_size=6))
def test_rows_do_not_depend_on_the_batches(rules: Catalogue, sequence: list[Event], cuts: list[int]) -> None:
    in_parts = in_batches(PartitionWindows(rules), sequence, cuts)
    assert in_parts == in_batches(PartitionWindows(rules), sequence, range(40))
    assert in_parts == in_batches(PartitionWindows(rules), sequence, ())


@given(catalogues(), near_events, near_events, near_events)
def test_a_copy_of_the_windows_does_not_affect_the_original(
    rules: Catalogue, before: list[Event], after: list[Event], other: list[Event]
) -> None:
    names = [f"g{n}" for n in range(3)]
    original, untouched = (PartitionWindows(rules, score_share=1.0, group_names=names) for _ in range(2))
    for windows in (original, untouched):
        fed(windows, before)
        windows.close_idle(7_000)
    copied = copy.deepcopy(original)
    fed(copied, other, len(before))
    copied.close_idle(10**6)
    found, expected = (fed(windows, after, len(before)) for windows in (original, untouched))
    assert rows_of(found.closed) == rows_of(expected.closed)
    assert found.outages == expected.outages
    assert [each.truth.tolist() for each in found.probes] == [each.truth.tolist() for each in expected.probes]


@given(catalogues(), near_events, st.randoms(use_true_random=False))
def test_newest_rows_do_not_depend_on_the_arrival_order_within_the_lateness(
    rules: Catalogue, sequence: list[Event], random: object
) -> None:
    """The same readings, sorted by time or by time plus a delay below the lateness, have the same newest rows."""
    unique = {(event.time_ms, event.group, event.sensor): event for event in sequence}
    in_time = [replace(event, produced_ms=None) for event in sorted(unique.values(), key=lambda event: event.time_ms)]
    lateness_ms = rules.models[0].lateness_ms
    delayed = sorted(in_time, key=lambda event: event.time_ms + random.uniform(0, lateness_ms))  # type: ignore[attr-defined]
    end = [Event(10**6, NAN)]
    ordered, outages = in_batches(PartitionWindows(rules), in_time + end, ())
    shuffled, delayed_outages = in_batches(PartitionWindows(rules), delayed + end, ())
    assert newest(ordered) == newest(shuffled)
    assert by_group(outages) == by_group(delayed_outages)


@given(catalogues(), events)
def test_every_reading_is_accounted_for(rules: Catalogue, sequence: list[Event]) -> None:
    """Each reading is observed in the output, superseded by another one in its step, a dropout, or too late."""
    windows = PartitionWindows(rules)
    result = fed(windows, sequence)
    rows = rows_of(result.closed)
    flush = Event(max((event.time_ms for event in sequence), default=0) + 100_000, NAN)
    rows += feed(windows, [flush], len(sequence))
    observed = newest([row for row in rows if row.observed])
    late = {each.offset for each in result.rejects}
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
