"""Rows and windows of closed steps; test_windows.py compares all rules with a reference."""

from typing import Any

import numpy as np
import pytest

from glaim_stream.core.vocabulary import FINAL, PROVISIONAL, Quality
from glaim_stream.windows.cadence import SlowSensors
from glaim_stream.windows.closed import NO_WINDOW, Closed, close_step, concatenate, correct
from glaim_stream.windows.holes import Rules, look_back
from glaim_stream.windows.rings import ReadingCells, Rings

RULES = Rules(window=6, revise_after=2, max_gap=3, step_ms=1000, model_index=0)


def rings(*observed: tuple[int, int, int], groups: int = 1, sensors: int = 2) -> Rings:
    """Rings at step 0; each given cell (group, sensor, step) holds 10 times its step, read 37 ms into the step."""
    made = Rings(sensors, 6, 1, mean=False)
    made.start(0)
    made.rows(np.arange(groups, dtype=np.int32))
    for group, sensor, step in observed:
        made.put(
            made.rows(np.array([group], np.int32)),
            np.array([sensor], np.int32),
            np.array([step]),
            np.full(1, 37, np.int32),
            np.array([10.0 * step], np.float64),
            np.zeros(1, np.int8),
        )
    return made


def close_or_none(
    given_rings: Rings,
    *,
    step: int = 0,
    published: bool = False,
    by_clock: bool = False,
    rules: Rules = RULES,
    slow: SlowSensors | None = None,
) -> Closed | None:
    return close_step(
        given_rings, rules, look_back(given_rings, rules, step), slow, published=published, by_clock=by_clock
    )


def close(given_rings: Rings, **options: Any) -> Closed:
    closed = close_or_none(given_rings, **options)
    assert closed is not None
    return closed


def test_groups_without_any_observation_emit_nothing() -> None:
    assert close_or_none(rings(groups=3)) is None


def test_without_groups_nothing_is_emitted() -> None:
    assert close_or_none(rings(groups=0)) is None


def test_a_complete_step_needs_no_window() -> None:
    closed = close(rings((0, 0, 0), (0, 1, 0)), by_clock=True)
    assert len(closed.window_values) == 0
    assert closed.window.tolist() == [NO_WINDOW, NO_WINDOW]
    assert (closed.value.tolist(), closed.gap_age.tolist(), closed.final.tolist()) == ([0, 0], [0, 0], [True, True])


def test_provisional_and_final_holes_of_a_group_share_one_window() -> None:
    """
    step   -5 -4 -3 -2 -1  0
    s0      x  x  x  .  x  .     -2 becomes final, 0 is provisional
    s1      x  x  x  x  x  x
    """
    made = rings(*((0, 1, step) for step in range(-5, 1)), *((0, 0, step) for step in (-5, -4, -3, -1)))
    closed = close(made)
    holes = np.flatnonzero(closed.window != NO_WINDOW)
    assert closed.window[holes].tolist() == [0, 0]
    assert closed.ts_ms[holes].tolist() == [0, -2000]
    assert closed.lag[holes].tolist() == [0, 2]
    assert closed.revision[holes].tolist() == [PROVISIONAL, FINAL]
    assert closed.gap_age[holes].tolist() == [1, 1]
    assert np.isnan(closed.value[holes]).all()
    assert closed.window_values[0, 0].tolist() == [-50, -40, -30, 0, -10, 0]
    assert closed.window_observed[0, 0].tolist() == [True, True, True, False, True, False]


def test_a_window_holds_zero_instead_of_an_older_value_left_in_the_ring() -> None:
    made = rings(*((0, 0, step) for step in range(-6, 1)))
    made.advance(1)
    closed = close(made, step=1, by_clock=True)
    assert closed.window_values[0, 0].tolist() == [-40, -30, -20, -10, 0, 0]


def test_a_window_holds_zero_at_steps_beyond_the_rings() -> None:
    """
    step        -3  -2  -1   0 | 1  2     room up to step 0; the slots of steps 1 and 2 still hold steps -6 and -5
    s0         -30 -20 -10   0 | .  .
    """
    made = rings(*((0, 0, step) for step in range(-6, 1)), sensors=1)
    made.put_dropouts(np.array([0]), np.array([0], np.int32), np.array([-5]))
    made.quality[0, 0, -5 % made.length] = Quality.BAD
    closed = close(made, step=2, by_clock=True)
    assert closed.window_values.tolist() == [[[-30, -20, -10, 0, 0, 0]]]
    assert closed.window_observed.tolist() == [[[True, True, True, True, False, False]]]
    assert (closed.gap_age.tolist(), closed.quality.tolist()) == ([2], [Quality.GOOD])


def test_each_row_has_the_value_time_and_quality_of_its_cell() -> None:
    made = rings((0, 0, -1), (1, 1, 0), (2, 0, 0), groups=3)
    made.put_dropouts(np.array([1]), np.array([0], np.int32), np.array([0]))
    closed = close(made)
    assert closed.group.tolist() == [0, 0, 1, 1, 2, 2]
    assert closed.sensor.tolist() == [0, 1, 0, 1, 0, 1]
    assert closed.observed.tolist() == [False, False, False, True, True, False]
    assert np.isnan(closed.value).tolist() == [True, True, True, False, False, True]
    assert closed.stamp_ms.tolist() == [0, 0, 0, 37, 37, 0]
    assert closed.quality.tolist() == [Quality.GOOD, Quality.GOOD, Quality.BAD, *[Quality.GOOD] * 3]
    assert closed.window.tolist() == [0, *[NO_WINDOW] * 5]


def test_the_hole_of_a_slow_sensor_is_remembered_until_its_final_row() -> None:
    """
    step   -1  0  1  2 | 3  4     s1 is due every three steps; the hole at 2 is final as step 4 closes
    s0      x  x  x  x | x  x
    s1      x  .  .  H | .  .
    """
    made = rings(*((0, 0, step) for step in range(-1, 1)), (0, 1, -1))
    slow = SlowSensors(made, np.array([1, 3]), revise_after=2, ahead=1, max_gap=3)

    def awaited() -> bool:
        return bool(slow.holes(2, np.array([0]), np.array([1]), np.array([1]))[0])

    found = []
    for step in range(5):
        made.advance(step)
        made.put(
            np.array([0]),
            np.array([0], np.int32),
            np.array([step]),
            np.zeros(1, np.int32),
            np.zeros(1, np.float64),
            np.zeros(1, np.int8),
        )
        closed = close(made, step=step, slow=slow)
        found += [(step, int(ts) // 1000) for ts in closed.ts_ms[closed.sensor == 1]]
        assert awaited() == (step in (2, 3))
    assert found == [(2, 2), (4, 2)]


def test_a_hole_published_by_the_wall_clock_awaits_its_final_row() -> None:
    made = rings((0, 0, -1), (0, 1, -1))
    slow = SlowSensors(made, np.array([1, 3]), revise_after=1, ahead=1, max_gap=3)
    for step in (2, 3):
        close_or_none(made, step=step, by_clock=True, slow=slow)
        assert slow.holes(2, np.array([0]), np.array([1]), np.array([1]))[0], "the wall clock emits no final rows"


def test_only_groups_with_a_hole_have_a_window() -> None:
    made = rings((0, 0, 0), (0, 1, 0), (1, 0, 0), (2, 0, 0), (2, 1, -1), groups=3)
    closed = close(made, by_clock=True)
    assert len(closed.window_values) == 1
    assert closed.window.tolist() == [-1, -1, -1, -1, -1, 0], "the sensor without observations in group 1 stays null"


def test_without_a_revision_the_first_value_is_final() -> None:
    rules = Rules(window=6, revise_after=0, max_gap=3, step_ms=1000, model_index=0)
    closed = close(rings((0, 0, -1)), rules=rules)
    assert closed.final.all()
    assert (closed.revision == PROVISIONAL).all()
    assert len(closed) == 2


def test_a_step_published_by_the_wall_clock_emits_only_final_rows() -> None:
    """
    step    -3 -2 -1  0
    s0       x  .  .  x     the hole at -2 has its right context
    s1       .  .  .  .     the hole at 0 is too old to be filled: nothing will change it
    """
    made = rings((0, 0, -3), (0, 0, 0))
    closed = close(made, published=True)
    assert closed.ts_ms.tolist() == [0, -2000]
    assert closed.sensor.tolist() == [1, 0]
    assert closed.revision.tolist() == [PROVISIONAL, FINAL]
    assert closed.final.all()
    assert close_or_none(made, published=True, by_clock=True) is None


def test_the_wall_clock_makes_no_hole_final() -> None:
    for revise_after in (0, 2):
        rules = Rules(window=6, revise_after=revise_after, max_gap=3, step_ms=1000, model_index=0)
        closed = close(rings((0, 0, 0), (1, 0, -1), groups=2), by_clock=True, rules=rules)
        assert (closed.final == closed.observed).all()


def cells(*places: tuple[int, int, int]) -> ReadingCells:
    row, sensor, step = (np.array(column) for column in zip(*places, strict=True))
    return ReadingCells(row, sensor, step, np.ones(len(row), np.bool_))


def test_corrections_are_observed_and_final_with_revisions_from_three() -> None:
    made = rings((0, 0, -1), (0, 1, -2))
    closed = correct(made, RULES, cells((0, 1, -2), (0, 0, -1)))
    assert closed is not None
    assert closed.ts_ms.tolist() == [-2000, -1000], "in order of arrival"
    assert closed.value.tolist() == [-20, -10]
    assert closed.stamp_ms.tolist() == [-1963, -963]
    assert (closed.group.tolist(), closed.sensor.tolist()) == ([0, 0], [1, 0])
    assert (closed.revision.tolist(), closed.final.all(), closed.observed.all()) == ([3, 3], True, True)
    again = correct(made, RULES, cells((0, 0, -1)))
    assert again is not None
    assert again.revision.tolist() == [4]


def test_without_corrections_there_are_no_rows() -> None:
    nothing = cells((0, 0, -1)).where(np.array([False]))
    assert correct(rings((0, 0, 0)), RULES, nothing) is None


def test_steps_are_joined_in_order_with_their_windows_renumbered() -> None:
    one, two = close(rings((0, 0, -1))), close(rings((0, 0, 0), (0, 1, -1)))
    joined = concatenate([one, None, two])
    assert joined is not None
    assert len(joined) == len(one) + len(two)
    assert len(joined.window_values) == len(one.window_values) + len(two.window_values)
    first = len(one)
    renumbered = joined.window[first:][two.window != NO_WINDOW]
    assert renumbered.tolist() == (two.window[two.window != NO_WINDOW] + len(one.window_values)).tolist()
    assert (joined.window[first:][two.window == NO_WINDOW] == NO_WINDOW).all()
    assert joined.window.dtype == np.int32
    assert joined.ts_ms.tolist() == [*one.ts_ms.tolist(), *two.ts_ms.tolist()]


def test_every_window_ends_at_the_step_at_which_it_was_made() -> None:
    """Holes of step 5, and the final rows of step 3, which come from the windows of step 5."""
    made = rings(*((0, sensor, step) for sensor in (0, 1) for step in range(3)), groups=2)
    made.start(0)
    parts = [close_or_none(made, step=step) for step in range(3, 6)]
    for step, part in zip(range(3, 6), parts, strict=True):
        assert part is not None
        assert len(part.window_values) == 1
        assert part.window_ends_ms(1000).tolist() == [step * 1000]
    joined = concatenate(parts)
    assert joined is not None
    assert joined.window_ends_ms(1000).tolist() == [3000, 4000, 5000]


@pytest.mark.parametrize("steps", [[], [None], [None, None]])
def test_joining_no_steps_returns_none(steps: list[None]) -> None:
    assert concatenate(steps) is None
