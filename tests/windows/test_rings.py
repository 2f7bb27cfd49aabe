"""Ring buffers of steps, and their rows of groups."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.windows.rings import ReadingCells, Rings

HUGE = np.iinfo(np.int64).max


def rings(*, mean: bool = False, closable: int = 0) -> Rings:
    made = Rings(2, 4, 2, mean=mean)
    made.start(closable)
    return made


def put(into: Rings, *readings: tuple[int, int, int, int, float], quality: list[int] | None = None) -> ReadingCells:
    """Put readings given as (group, sensor, step, stamp, value)."""
    group, sensor, step, stamp, value = (np.array(column) for column in zip(*readings, strict=True))
    return into.put(
        into.rows(group.astype(np.int32)),
        sensor.astype(np.int32),
        step,
        stamp.astype(np.int32),
        value.astype(np.float64),
        np.zeros(len(group), np.int8) if quality is None else np.array(quality, np.int8),
    )


def held(ring: Rings, row: int, sensor: int, step: int) -> float | None:
    slot = int(ring.slots(np.array([step]))[0])
    return float(ring.values[row, sensor, slot]) if ring.observed[row, sensor, slot] else None


def test_rings_hold_a_closed_window_and_the_open_steps() -> None:
    """
    step    ... -4 -3 -2 -1 | 0  1 ...      window 4, ahead 2, closable 0
    """
    ring = rings()
    assert (ring.oldest_step, ring.newest_step, ring.length) == (-4, 1, 6)


@pytest.mark.parametrize("closable", [0, -7, 10**12])
def test_only_steps_that_leave_the_rings_are_forgotten(closable: int) -> None:
    ring = rings(closable=closable)
    steps = range(closable - 4, closable + 2)
    put(ring, *((0, 0, step, 0, float(n)) for n, step in enumerate(steps)))
    ring.advance(closable + 2)
    assert [held(ring, 0, 0, step) for step in steps[2:]] == [2, 3, 4, 5]
    assert [held(ring, 0, 0, step) for step in (closable + 2, closable + 3)] == [None, None]


def test_the_newest_observed_step_is_taken_over_all_groups_and_sensors() -> None:
    """
    step        -4 -3 -2 -1 | 0  1
    group 0      x  .  .  . | .  .
    group 1      .  .  x  . | .  .     then also step 1
    """
    ring = rings()
    assert ring.newest_observed() is None
    put(ring, (0, 0, -4, 0, 1.0))
    assert ring.newest_observed() == -4
    put(ring, (1, 1, -2, 0, 1.0))
    assert ring.newest_observed() == -2
    put(ring, (1, 0, 1, 0, 1.0))
    assert ring.newest_observed() == 1
    ring.advance(6)
    assert ring.newest_observed() is None


@pytest.mark.parametrize("step", [-1, 0, 1, 2, 3, 4])
def test_the_past_of_a_step_is_a_copy_of_its_window_in_order(step: int) -> None:
    """With six slots and windows of four steps, a window occupies one or two ranges of slots."""
    ring = rings(closable=step)
    put(ring, *((0, 1, each, 0, float(each)) for each in range(step - 4, step + 2)))
    ring.rows(np.array([5], np.int32))
    past = ring.past(ring.values, np.array([1, 0]), step)
    assert past.shape == (2, 2, 4)
    assert past[1, 1].tolist() == [step - 3, step - 2, step - 1, step]
    assert not past[0].any()
    past[:] = 9.0
    assert 9.0 not in ring.values


def test_offsets_are_remembered_for_more_steps_than_values() -> None:
    """
    step     -7 -6 -5 | -4 -3 -2 -1 | 0  1     offsets_back 3, window 4, ahead 2
    offset   10 11 12   13 14 15 16  17 18
    """
    ring = Rings(1, 4, 2, mean=False, offsets_back=3)
    ring.start(0)
    ring.note_offsets(np.arange(-7, 2), np.arange(10, 19))
    ring.note_offsets(np.array([-3, 0]), np.array([90, 3]))
    for closable, lowest in ((0, 3), (7, 3), (8, 18), (9, HUGE)):
        ring.advance(closable)
        assert ring.lowest_offset() == lowest
    other = Rings(1, 4, 2, mean=False, offsets_back=3)
    other.start(0)
    other.note_offsets(np.arange(-7, 2), np.arange(10, 19))
    for closable, lowest in ((0, 10), (1, 11), (2, 12)):
        other.advance(closable)
        assert other.lowest_offset() == lowest


def test_empty_groups_are_evicted_and_return_in_a_new_row() -> None:
    """A group with a dropout is not empty, because its quality explains the hole."""
    ring = rings()
    put(ring, (3, 0, 0, 0, 3.0), (1_000, 1, 0, 0, 4.0))
    dropout = ring.rows(np.array([7], np.int32))
    ring.rows(np.array([8, 9], np.int32))
    ring.put_dropouts(dropout, np.array([1], np.int32), np.array([0]))
    ring.evict()
    assert ring.groups == ring.codes.tolist() == [3, 1_000, 7]
    assert (held(ring, 0, 0, 0), held(ring, 1, 1, 0)) == (3.0, 4.0)
    assert ring.quality[2, :, 0].tolist() == [0, 2]
    assert ring.rows(np.array([9, 7, 8, 3], np.int32)).tolist() == [3, 2, 4, 0]
    assert ring.groups == ring.codes.tolist() == [3, 1_000, 7, 9, 8]
    ring.evict()
    assert ring.groups == [3, 1_000, 7]
    ring.evict()
    assert ring.groups == [3, 1_000, 7], "nothing to drop"


def test_a_jump_beyond_all_steps_empties_the_rings() -> None:
    ring = rings()
    put(ring, (0, 0, 0, 0, 1.0))
    ring.note_offsets(np.array([0]), np.array([7]))
    ring.advance(10**9)
    assert not ring.observed.any()
    assert ring.lowest_offset() == HUGE


def test_rings_never_move_back() -> None:
    ring = rings(closable=5)
    put(ring, (0, 0, 5, 0, 1.0))
    ring.advance(3)
    assert ring.closable == 5
    assert held(ring, 0, 0, 5) == 1.0


def test_the_latest_timestamp_wins_and_the_later_arrival_if_equal() -> None:
    ring = rings()
    cells = put(ring, (0, 0, 0, 5, 1.0), (0, 0, 0, 9, 2.0), (0, 0, 0, 9, 3.0), (0, 0, 0, 7, 4.0))
    assert held(ring, 0, 0, 0) == 3.0
    assert cells.changed.tolist() == [False, False, True, False]
    assert put(ring, (0, 0, 0, 8, 5.0)).taken == 0
    assert put(ring, (0, 0, 0, 9, 6.0)).taken == 1


def test_a_mean_includes_every_reading() -> None:
    ring = rings(mean=True)
    put(ring, (0, 0, 0, 5, 1.0), (0, 0, 0, 9, 2.0))
    put(ring, (0, 0, 0, 0, 6.0))
    assert held(ring, 0, 0, 0) == 3.0
    ring.advance(10)
    put(ring, (0, 0, 6, 0, 8.0))
    assert held(ring, 0, 0, 6) == 8.0, "the sums of the earlier step are cleared"


@pytest.mark.parametrize("mean", [False, True])
def test_a_cell_has_the_quality_of_its_reading_or_bad_after_only_a_dropout(mean: bool) -> None:
    ring = rings(mean=mean)
    ring.put_dropouts(ring.rows(np.array([0, 0], np.int32)), np.array([0, 1], np.int32), np.array([0, 0]))
    assert ring.quality[0, :, 0].tolist() == [2, 2]
    assert put(ring, (0, 0, 0, 5, 1.0), (0, 0, 0, 9, 1.0), quality=[1, 0]).changed[-1]
    assert ring.quality[0, :, 0].tolist() == [int(mean), 2], "a mean has the worst quality of its readings"
    ring.put_dropouts(ring.rows(np.array([0], np.int32)), np.array([0], np.int32), np.array([0]))
    assert ring.quality[0, :, 0].tolist() == [int(mean), 2], "a dropout does not remove a value"
    ring.advance(10)
    assert not ring.quality[0].any()


def test_a_reading_that_changes_only_time_or_quality_changes_the_cell() -> None:
    ring = rings()
    put(ring, (0, 0, 0, 5, 1.0))
    assert put(ring, (0, 0, 0, 5, 1.0), quality=[0]).taken == 0
    assert put(ring, (0, 0, 0, 5, 1.0), quality=[1]).taken == 1
    assert put(ring, (0, 0, 0, 6, 1.0), quality=[1]).taken == 1


def test_a_new_group_starts_with_an_empty_row() -> None:
    ring = rings(mean=True)
    put(ring, *((group, 1, 0, 0, float(group)) for group in range(100, 130)))
    assert ring.groups == list(range(100, 130))
    assert [held(ring, row, 1, 0) for row in range(30)] == [float(group) for group in range(100, 130)]
    assert not ring.observed[:, 0].any()


def test_corrections_are_counted_per_cell_and_fit_in_sixteen_bits() -> None:
    ring = rings()
    cells = put(ring, (0, 0, -1, 0, 1.0), (0, 1, -1, 0, 1.0))
    assert ring.correct(cells).tolist() == [1, 1]
    assert ring.correct(cells.where(np.array([True, False]))).tolist() == [2]
    ring.corrections[:] = 32_000
    assert ring.correct(cells).max() < np.iinfo(np.int16).max
    ring.advance(10)
    assert not ring.corrections[0].any()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=30))
def test_the_lowest_offset_agrees_with_a_list_of_all_offsets(moves: list[tuple[int, int]]) -> None:
    ring = rings()
    kept: list[tuple[int, int]] = []  # (step, offset)
    for offset, (place, forward) in enumerate(moves):
        step = ring.oldest_step + place % ring.length
        ring.note_offsets(np.array([step]), np.array([offset]))
        kept.append((step, offset))
        ring.advance((ring.closable or 0) + forward)
        kept = [each for each in kept if each[0] >= ring.oldest_step]
        assert ring.lowest_offset() == min((offset for _, offset in kept), default=HUGE)


def test_an_attached_array_follows_the_rows() -> None:
    """
    row        0    1    2    3  ...  9       ten groups, more than the initial room
    group    100  101  102  103     109
    observed   x    .    x    .       .       the others are evicted
    """
    ring = rings()
    attached = ring.attach((3,), np.int32)
    assert attached.array.shape == (8, 3)
    assert attached.array.dtype == np.int32
    put(ring, (100, 0, 0, 0, 1.0))
    attached.array[0] = 7
    rows = ring.rows(np.arange(100, 110, dtype=np.int32))
    assert attached.array.shape == (16, 3)
    assert attached.array.any(axis=1).tolist() == [True] + [False] * 15
    attached.array[rows] = np.arange(100, 110)[:, None]
    put(ring, (102, 0, 0, 0, 1.0))
    ring.evict()
    assert ring.groups == [100, 102]
    assert attached.array.shape == (8, 3)
    assert attached.array[:, 0].tolist() == [100, 102, 0, 0, 0, 0, 0, 0]
    assert ring.rows(np.array([101], np.int32)).tolist() == [2]
    assert attached.array[2].tolist() == [0, 0, 0], "a group that returns starts with zeros"


def test_a_copy_of_the_rings_has_separate_attached_arrays() -> None:
    ring = rings()
    attached = ring.attach((), np.int64)
    ring.rows(np.array([0], np.int32))
    copied_ring, copied_attached = copy.deepcopy((ring, attached))
    copied_attached.array[0] = 5
    copied_ring.rows(np.arange(20, dtype=np.int32))
    assert (len(copied_attached.array), copied_attached.array[0]) == (20, 5)
    assert (len(attached.array), attached.array[0]) == (8, 0)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2), st.booleans()), max_size=60))
def test_an_attached_array_agrees_with_a_dictionary_by_group(moves: list[tuple[int, int, bool]]) -> None:
    """Groups appear, are written to, fall silent, are evicted and return; a dictionary holds the expected values."""
    ring = rings()
    attached = ring.attach((2,), np.int64)
    kept: dict[int, int] = {}
    for number, (group, forward, evict) in enumerate(moves, 1):
        step = ring.newest_step
        put(ring, (group, 0, step, 0, float(number)))
        row = int(ring.rows(np.array([group], np.int32))[0])
        assert attached.array[row].tolist() == [kept.get(group, 0)] * 2
        attached.array[row] = kept[group] = number
        ring.advance((ring.closable or 0) + forward)
        if evict:
            ring.evict()
            kept = {group: kept[group] for group in ring.groups}
        assert len(attached.array) == len(ring.values)
        assert attached.array[: len(ring.groups), 1].tolist() == [kept[group] for group in ring.groups]
        assert not attached.array[len(ring.groups) :].any()


def test_only_groups_with_a_row_have_one() -> None:
    it = rings()
    put(it, (1, 0, 0, 0, 1.0))
    assert it.has_rows(np.array([0, 1, 2, 5000], np.int32)).tolist() == [False, True, False, False]
    put(it, (0, 0, 0, 0, 1.0))
    assert it.has_rows(np.array([0, 1, 2, 5000], np.int32)).tolist() == [True, True, False, False]
