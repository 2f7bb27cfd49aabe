"""Windows rebuilt from the lowest offset that they need continue like the original ones."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from glaim_stream.core.catalogue import Catalogue, parse_catalogue
from glaim_stream.windows import PartitionWindows
from tests.event_time import NAN, by_group, by_key, catalogues, event, events, fed, in_batches
from tests.support import Event, Row, rows_of


def continue_both(rules: Catalogue, sequence: list[Event], split: int) -> tuple[PartitionWindows, PartitionWindows]:
    """Check that original and rebuilt windows emit the same after the split, and return both."""
    split = min(split, len(sequence))
    whole = PartitionWindows(rules)
    fed(whole, sequence[:split])
    rebuild_from = whole.rebuild_from(split)
    assert 0 <= rebuild_from <= split
    rebuilt = PartitionWindows(rules)
    rebuilt.rebuilding = True
    fed(rebuilt, sequence[rebuild_from:split], rebuild_from)
    rebuilt.rebuilding = False
    rest = [*sequence[split:], Event(10**13, NAN)]
    (rows, outages), (rebuilt_rows, rebuilt_outages) = (in_batches(each, rest, (), split) for each in (whole, rebuilt))
    assert by_key(rebuilt_rows) == by_key(rows)
    assert by_group(rebuilt_outages) == by_group(outages)
    return whole, rebuilt


@given(catalogues(), events, st.integers(0, 40))
@settings(max_examples=150)
def test_rebuilt_windows_continue_like_the_original_ones(rules: Catalogue, sequence: list[Event], split: int) -> None:
    whole, rebuilt = continue_both(rules, sequence, split)
    assert rebuilt.rebuild_from(10**6) == whole.rebuild_from(10**6)


def two_models(**second: Any) -> Catalogue:
    """Model a has a window of 6 s, model b one of 60 s."""
    sensors = [{"id": "s0"}, {"id": "s1"}]
    a = {"name": "a", "sensors": sensors, "step_s": 1, "window": 6, "revise_after": 1, "max_gap": 3}
    b = {"name": "b", "sensors": sensors, "step_s": 10, "window": 6, "revise_after": 1, "max_gap": 3, **second}
    groups = [{"model": "a", "pattern": "a*"}, {"model": "b", "pattern": "b*"}]
    return parse_catalogue({"models": [a, b], "groups": groups}, source="test")


def test_a_rebuild_keeps_the_revision_of_a_step_closed_by_another_model() -> None:
    """
    offset    0         1         2          3         4
    model     b @ 0     a @ 30    b @ 5      a @ 40    b @ 6
                        closes    late: 3    the       late: 4; needs offset 1, which a's window has left
    """
    rules = two_models()
    sequence = [
        Event(0, 1.0, 1, model=1),
        Event(30_000, 1.0, 0, model=0),
        Event(5_000, 2.0, 1, model=1),
        Event(40_000, 1.0, 0, model=0),
        Event(6_000, 3.0, 1, model=1),
    ]
    whole = PartitionWindows(rules)
    rows = [row for n, each in enumerate(sequence) for row in rows_of(fed(whole, [each], n).closed)]
    assert [(row.value, row.revision) for row in rows if row.observed and row.model == 1] == [(1, 0), (2, 3), (3, 4)]
    continue_both(rules, sequence, 4)


def test_a_late_reading_needs_the_record_that_closed_its_step() -> None:
    rules = two_models()
    windows = PartitionWindows(rules)
    sequence = [Event(0, NAN), Event(30_000), Event(5_000, 2.0, 1, model=1), Event(40_000)]
    fed(windows, sequence)
    assert windows.rebuild_from(10) == 1
    continue_both(rules, [*sequence, Event(6_000, 3.0, 1, model=1)], 4)


@given(
    st.lists(event(models=2), max_size=40),
    st.integers(0, 40),
    st.sampled_from([{}, {"lateness_s": 15}, {"step_s": 2}]),
    st.lists(st.integers(0, 40), max_size=4),
)
@settings(max_examples=150)
def test_models_in_one_partition_are_rebuilt_correctly(
    sequence: list[Event], split: int, second: dict[str, Any], cuts: list[int]
) -> None:
    rules = two_models(**second)
    continue_both(rules, sequence, split)
    in_parts = in_batches(PartitionWindows(rules), sequence, cuts)
    by_one = in_batches(PartitionWindows(rules), sequence, range(40))
    for rows, outages in (in_parts, by_one):
        rows.sort(key=lambda row: row.model)  # stable: each model's rows keep their order
        outages.sort(key=lambda outage: outage.model_index)
    assert in_parts == by_one


def test_groups_that_were_silent_for_a_window_are_dropped_and_return_as_new() -> None:
    rules = two_models()
    windows = PartitionWindows(rules)
    most = 0
    rows: list[Row] = []
    for step in range(300):
        group = 2 * (step // 3)  # each group sends for three steps only
        rows += rows_of(fed(windows, [Event(step * 1000, float(step), group)], step).closed)
        most = max(most, windows.groups)
    assert most <= 6
    assert [row.value for row in rows if row.observed and row.model == 0] == [float(step) for step in range(299)]
    assert {row.group for row in rows if row.observed} == set(range(0, 200, 2))
    again = fed(windows, [Event(300_000, 5.0, 0), Event(301_000, 6.0, 0)], 300)
    assert [(each.kind, each.ts_ms, each.last_ts_ms) for each in again.outages if each.group == 0] == [
        ("speaks", 300_000, -1)
    ]
