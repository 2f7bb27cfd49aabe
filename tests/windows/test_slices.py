"""Steps that close together are handed over in slices: the same rows, probes and outages in the same order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.windows import Applied, PartitionWindows
from tests.event_time import catalogues, near_events
from tests.support import STEP_MS, Event, catalogue, columns, rows_of

HUGE = 10**12


def windows(rules: Catalogue, slice_bytes: int, *, clock_kept: bool = False) -> PartitionWindows:
    names = [f"g{number}" for number in range(9)]
    return PartitionWindows(rules, score_share=1.0, group_names=names, clock_kept=clock_kept, slice_bytes=slice_bytes)


def caused(parts: list[Applied]) -> tuple[object, ...]:
    """Everything that a batch caused, in comparable form."""
    return (
        rows_of(closed for part in parts for closed in part.closed),
        [(each.step.tolist(), each.truth.tolist(), each.values.tobytes()) for part in parts for each in part.probes],
        [outage for part in parts for outage in part.outages],
        [(each.offset, each.late_by_ms) for part in parts for each in part.rejects],
        sum(part.superseded for part in parts),
        sum(part.dropouts for part in parts),
        sum(part.skewed for part in parts),
    )


@settings(max_examples=40)
@given(catalogues(), near_events, st.integers(1, 3000))
def test_slices_hold_what_one_batch_holds(rules: Catalogue, batch: list[Event], slice_bytes: int) -> None:
    readings = columns(batch)
    slices = list(windows(rules, slice_bytes).feed_slices(readings, arrival_ms=0))
    assert caused(slices) == caused([windows(rules, HUGE).feed(readings, arrival_ms=0)])
    assert [part.last for part in slices] == [False] * (len(slices) - 1) + [True]


@settings(max_examples=40)
@given(catalogues(), near_events, st.integers(1, 3000))
def test_the_wall_clock_publishes_the_same_in_slices(rules: Catalogue, batch: list[Event], slice_bytes: int) -> None:
    def closed(made: PartitionWindows) -> list[Applied]:
        made.feed(columns(batch), arrival_ms=0)
        parts = []
        for close in (lambda: made.close_idle(9_000), made.close_end):
            while (part := close()).closed or part.outages:
                parts.append(part)
        return parts

    assert caused(closed(windows(rules, slice_bytes))) == caused(closed(windows(rules, HUGE)))


@pytest.mark.parametrize("cadence_s", [None, 2], ids=["every sensor is due", "a slow sensor"])
@pytest.mark.parametrize("slices", [1, 2, 3])
def test_a_rebuild_repeats_the_slices_that_the_clock_closed_without_their_rows(
    cadence_s: int | None, slices: int
) -> None:
    """The rows of a slow sensor are made in a rebuild too, and could end the repetition early."""
    rules = catalogue(sensors=[{"id": "s0"}, {"id": "s1", "cadence_s": cadence_s}])
    batch, later = columns([Event(0, 1.0)]), columns([Event(3 * STEP_MS, 2.0)], first_offset=1)
    worker = windows(rules, 1, clock_kept=True)
    worker.feed(batch, arrival_ms=0)
    for _ in range(slices):
        assert worker.close_idle(60_000, 1).closed
    (close,) = worker.clock_closes(0)
    rebuilt = windows(rules, 1, clock_kept=True)
    rebuilt.rebuilding = True
    rebuilt.feed(batch, arrival_ms=0)
    rebuilt.repeat_clock_close(close)
    rebuilt.rebuilding = False
    assert rebuilt.clock_closes(0) == (close,)
    assert caused([rebuilt.feed(later, arrival_ms=0)]) == caused([worker.feed(later, arrival_ms=0)])


def test_a_slice_has_at_least_a_step_and_at_most_its_bytes() -> None:
    rules = catalogue(max_ahead_s=0)
    batch = [Event(0, 1.0, group) for group in range(3)] + [Event(STEP_MS, 2.0, group) for group in range(3)]
    silence = Event(4 * STEP_MS, 3.0)
    few, many = windows(rules, 1), windows(rules, HUGE)
    for made in (few, many):
        made.feed(columns(batch), arrival_ms=0)
    slices = list(few.feed_slices(columns([silence], first_offset=10), arrival_ms=0))
    steps = [sorted({row.ts_ms // STEP_MS + row.lag for row in rows_of(part.closed)}) for part in slices]
    assert steps == [[1], [2], [3], []]
    (whole,) = many.feed_slices(columns([silence], first_offset=10), arrival_ms=0)
    assert len(rows_of(whole.closed)) == sum(len(rows_of(part.closed)) for part in slices)


@pytest.mark.parametrize("slice_bytes", [1, HUGE])
def test_counts_come_with_the_last_slice(slice_bytes: int) -> None:
    made = windows(catalogue(max_ahead_s=0), slice_bytes)
    made.feed(columns([Event(0, 1.0)]), arrival_ms=0)
    late = [Event(9 * STEP_MS, 2.0), Event(0, 5.0)]
    *early, last = made.feed_slices(columns(late, first_offset=1), arrival_ms=0)
    assert not any(part.rejects for part in early)
    assert [each.offset for each in last.rejects] == [2]
