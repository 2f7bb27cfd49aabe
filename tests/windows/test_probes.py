"""Probes: hidden cells, sampled groups, and identical probes in a rebuild."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.windows import probes
from glaim_stream.windows.history import HORIZON
from glaim_stream.windows.partition import PartitionWindows
from glaim_stream.windows.probes import (
    AGES,
    FEWEST_WINDOWS,
    MOST_COPIES,
    MOST_WINDOWS,
    Place,
    Probes,
    _mixed,
    age_class,
    places,
)  # fmt: skip
from tests.support import STEP_MS, Event, catalogue, columns

NAMES = [f"g{n}" for n in range(100)]


def probing(rules: Catalogue, share: float = 1.0, names: Sequence[str] = NAMES) -> PartitionWindows:
    return PartitionWindows(rules, score_share=share, group_names=names)


def full_stream(steps: int, *, groups: int = 1, sensors: int = 8) -> list[Event]:
    """Readings of every sensor at every step; the value encodes group, sensor and step."""
    return [
        Event(step * STEP_MS, 10_000.0 * group + 100 * sensor + step, group, sensor)
        for step in range(steps)
        for group in range(groups)
        for sensor in range(sensors)
    ]


def fed(windows: PartitionWindows, events: Sequence[Event], **place: int) -> list[Probes]:
    return windows.feed(columns(events, **place), arrival_ms=0).probes


def as_bytes(probes: Sequence[Probes]) -> dict[int, list[bytes]]:
    """The arrays of all probes as bytes, by step."""
    return {
        int(each.step[0]): [
            column.tobytes()
            for column in (
                each.values, each.observed, each.window, each.sensor, each.lag, each.gap_age, each.truth, each.copied,
            )
        ]
        for each in probes
    }  # fmt: skip


WIDE = catalogue(sensors=8, window=48, revise_after=4, max_gap=20)


def test_a_probe_cell_is_hidden_and_its_truth_is_the_reading() -> None:
    made = fed(probing(WIDE), full_stream(120, groups=5))
    probed_at = [int(each.step[0]) for each in made]
    assert probed_at[-100:] == list(range(19, 119)), "every step with a history"
    assert probed_at[0] > 0
    found: set[tuple[int, int]] = set()
    for each in made:
        newest = int(each.step[0])
        at = each.observed.shape[2] - 1 - each.lag
        assert not each.observed[each.window, each.sensor, at].any()
        assert (each.values[~each.observed] == 0).all()
        assert np.array_equal(each.truth % 100, (newest - each.lag) % 100)
        assert set(each.lag.tolist()) <= {0, 4}
        back = each.observed[each.window, each.sensor, np.maximum(at - each.gap_age, 0)]
        assert back.all(), "the gap age leads to the last visible observation"
        assert each.window_ends_ms(STEP_MS).tolist() == [newest * STEP_MS] * len(each)
        place = places(each.observed, each.window, each.sensor, each.lag)
        found |= set(zip(place.tolist(), each.gap_age.tolist(), strict=True))
    assert found == {(place, age) for place in Place for age in AGES}


def test_the_gap_around_an_interior_cell_continues_after_it() -> None:
    """A gap that ended at the cell would favour interpolation, which would have a reading right beside it."""
    steps_on: set[int] = set()
    for each in fed(probing(WIDE), full_stream(120, groups=5)):
        inside = each.lag == 4
        behind = np.arange(each.observed.shape[2] - 1, -1, -1)
        after = each.observed[each.window[inside], each.sensor[inside]] & (behind < 4)
        assert after[:, -1].all(), "the gap ends before the newest step"
        steps_on |= set((3 - np.where(after, behind, -1).max(axis=1)).tolist())
    assert steps_on == {0, 1, 2, 3}


def test_at_most_two_sensors_are_hidden_unless_the_whole_row_is() -> None:
    for each in fed(probing(WIDE), full_stream(120, groups=5))[60:]:
        sensors_hidden = (~each.observed).any(axis=2).sum(axis=1)
        whole = np.zeros(len(sensors_hidden), np.bool_)
        whole[each.window] = places(each.observed, each.window, each.sensor, each.lag) >= Place.ROW_EDGE
        assert (sensors_hidden[~whole] <= 2).all()
        assert (sensors_hidden[whole] == 8).all()


def silent(event: Event) -> bool:
    """Of the first group, sensors 2 and 5 for 18 of each 60 steps; of all groups, sensor 7 from step 60 on."""
    step = event.time_ms // STEP_MS
    return (event.group == 0 and event.sensor in (2, 5) and step % 60 >= 42) or (event.sensor == 7 and step >= 60)


def copied_cells(events: Sequence[Event]) -> list[tuple[int, int, int, int, int]]:
    """Step, group, sensor, lag and gap age of the probe cells that are hidden as recent holes."""
    return [
        (int(each.step[cell]), int(each.group[each.window[cell]]), *(int(column[cell]) for column in columns))
        for each in fed(probing(WIDE), events)
        for columns in [(each.sensor, each.lag, each.gap_age)]
        for cell in np.flatnonzero(each.copied).tolist()
    ]


@pytest.mark.parametrize("groups", [1, 5])
def test_recent_holes_are_copied_together_and_as_long_as_they_are(groups: int) -> None:
    """Also where no other group has readings, from the holes that the group itself had."""
    events = [event for event in full_stream(600, groups=groups) if not silent(event)]
    cells = [cell for cell in copied_cells(events) if cell[0] > 120]
    assert {sensor for _, _, sensor, _, _ in cells} == {2, 5}, "no hole of the others is filled"
    assert {lag for *_, lag, _ in cells} == {0, 4}
    assert max(age for *_, age in cells) >= 18, "no gap that is drawn is longer than 16 steps"
    at = {(step, group): set[int]() for step, group, *_ in cells}
    for step, group, sensor, *_ in cells:
        at[step, group].add(sensor)
    assert all(sensors == {2, 5} for sensors in at.values())
    assert len({group for _, group, *_ in cells}) == groups


def test_the_windows_of_copies_are_further_ones_and_the_others_do_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [event for event in full_stream(120, groups=5) if not silent(event)]
    both = fed(probing(WIDE), events)
    monkeypatch.setattr(probes, "MOST_COPIES", 0)
    drawn = fed(probing(WIDE), events)
    assert not any(each.copied.any() for each in drawn)
    for one, other in zip(drawn, both, strict=True):
        own = ~other.copied
        assert np.array_equal(one.observed, other.observed[: len(one)])
        assert np.array_equal(one.sensor, other.sensor[own])
        assert np.array_equal(one.truth, other.truth[own])
        assert len(other) - len(one) <= MOST_COPIES


def test_without_holes_nothing_is_copied() -> None:
    assert copied_cells(full_stream(120, groups=3)) == []


@pytest.mark.parametrize(
    ("share", "groups", "expected"),
    [(0.01, 20, FEWEST_WINDOWS), (0.01, 2, FEWEST_WINDOWS), (0.25, 20, 5), (1.0, 60, MOST_WINDOWS)],
)
def test_a_share_of_the_groups_is_probed_within_the_bounds(share: float, groups: int, expected: int) -> None:
    made = fed(probing(WIDE, share), full_stream(60, groups=groups))
    assert [len(each.values) for each in made[-30:]] == [expected] * 30


def test_every_group_is_probed_eventually() -> None:
    groups = 10
    probed = {
        int(truth) // 10_000
        for each in fed(probing(WIDE, 0.1), full_stream(150, groups=groups))
        for truth in each.truth
    }
    assert probed == set(range(groups))


def test_a_group_with_a_single_sensor_is_probed() -> None:
    made = fed(probing(catalogue(sensors=1)), full_stream(20, sensors=1))
    lags = {int(lag) for each in made for lag in each.lag}
    assert lags == {0, 2}


def test_without_a_share_or_an_active_group_there_are_no_probes() -> None:
    assert fed(PartitionWindows(WIDE), full_stream(20)) == []
    silent = [Event(0), Event(50 * STEP_MS)]
    assert fed(probing(WIDE), silent) == []


events = st.lists(
    st.builds(
        Event,
        st.integers(0, 60).map(lambda step: step * STEP_MS),
        st.sampled_from([1.0, 2.0, 3.5]),
        st.integers(0, 3),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=120,
)
SMALL = catalogue(sensors=3, window=6, lateness_s=2)


@given(events=events, cuts=st.sets(st.integers(1, 119)), ordered=st.booleans())
@settings(max_examples=60)
def test_the_probes_do_not_depend_on_the_batches(events: list[Event], cuts: set[int], ordered: bool) -> None:
    if ordered:
        events = sorted(events, key=lambda event: event.time_ms)
    whole = as_bytes(fed(probing(SMALL), events))
    windows, parts = probing(SMALL), []
    edges = [0, *sorted(cut for cut in cuts if cut < len(events)), len(events)]
    for start, end in pairwise(edges):
        parts += fed(windows, events[start:end], first_offset=start)
    assert as_bytes(parts) == whole


@given(events=events, jump=st.integers(0, 150), ordered=st.booleans())
@settings(max_examples=60)
def test_a_rebuild_makes_the_same_probes_for_the_last_96_steps(events: list[Event], jump: int, ordered: bool) -> None:
    """The rebuild does not know groups with only earlier readings, so its rows have other numbers."""
    if ordered:
        events = sorted(events, key=lambda event: event.time_ms)
    later = [Event(event.time_ms + jump * STEP_MS, event.value, event.group, event.sensor) for event in events]
    events = [*events, *later]
    windows = probing(SMALL)
    live = as_bytes(fed(windows, events))
    first = windows.rebuild_from(len(events))
    again = probing(SMALL)
    rebuilt = as_bytes(fed(again, events[first:], first_offset=first))
    closable = max(event.time_ms for event in events) // STEP_MS - 2
    recent = {step: made for step, made in live.items() if step >= closable - HORIZON}
    assert {step: made for step, made in rebuilt.items() if step >= closable - HORIZON} == recent


def test_gap_ages_share_classes() -> None:
    assert age_class(np.array([1, 2, 3, 4, 5, 16, 17, 90])).tolist() == [0, 1, 2, 2, 3, 4, 4, 4]


def test_the_hash_is_the_generator_that_its_source_publishes() -> None:
    """SplitMix64 from the seed 1234567: each state is the one before plus 0x9E3779B97F4A7C15, modulo 2^64."""
    states = np.uint64(1234567) + np.arange(5, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert _mixed(states).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
