"""Exponentially decaying sums that contain nothing older than a horizon."""

import pytest

from glaim_stream.blend.leader import RecentSums


def summed(*steps: int, horizon: int = 4) -> RecentSums:
    """Sums with 1 added at each of the steps; an addend halves with every step."""
    sums = RecentSums((), memory=0.5, horizon=horizon)
    for step in steps:
        old, young = sums.turn(step)
        sums.values[0] += old
        sums.values[1] += young
    return sums


def read(sums: RecentSums, step: int) -> float | None:
    found = sums.read(step)
    return None if found is None else float(found)


def test_without_an_addend_there_is_no_sum() -> None:
    assert summed().read(0) is None


@pytest.mark.parametrize("first", [0, 8, -4])
def test_an_addend_decays_and_is_gone_after_the_horizon(first: int) -> None:
    """A sum starts at every second step; the addend is in the sum that started at its step."""
    sums = summed(first)
    assert [read(sums, first + later) for later in range(1, 6)] == [0.5, 0.25, 0.125, None, None]


def test_an_addend_in_the_middle_of_a_half_horizon_is_gone_one_step_earlier() -> None:
    sums = summed(1)
    assert [read(sums, step) for step in range(2, 6)] == [0.5, 0.25, None, None]


def test_addends_of_one_half_horizon_are_added_up() -> None:
    assert read(summed(0, 1), 2) == 0.25 + 0.5


def test_the_sum_that_started_a_half_horizon_earlier_is_read() -> None:
    """
    step     0  1 | 2  3 | 4
    addend   1    | 1    |
    """
    sums = summed(0, 2)
    assert read(sums, 3) == 0.125 + 0.5
    assert read(sums, 4) == 0.25, "the first addend is a horizon old"


def test_a_pause_of_a_half_horizon_removes_earlier_addends() -> None:
    assert read(summed(0, 4), 5) == 0.5
    assert read(summed(1, 2), 3) == 0.25 + 0.5, "a step in the next half horizon is no pause"


def test_without_decay_sums_still_end_at_the_horizon() -> None:
    sums = RecentSums((2,), memory=1.0, horizon=2)
    assert sums.turn(0) == (1.0, 1.0)
    sums.values += 3.0
    found = sums.read(1)
    assert found is not None
    assert found.tolist() == [3.0, 3.0]
    assert sums.read(2) is None


def test_steps_must_ascend() -> None:
    sums = summed(3)
    with pytest.raises(ValueError, match="a step after 3, found 3"):
        sums.turn(3)
    with pytest.raises(ValueError, match="a step after 3, whose errors are known, found 3"):
        sums.read(3)
    assert sums.turn(4) == (0.5**-2, 1.0)


@pytest.mark.parametrize(
    ("memory", "horizon", "message"),
    [
        (0.0, 4, "memory"),
        (1.1, 4, "memory"),
        (0.5, 0, "even horizon"),
        (0.5, 1, "even horizon"),
        (0.5, 5, "even horizon"),
    ],
)
def test_arguments_out_of_range_are_rejected(memory: float, horizon: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RecentSums((), memory=memory, horizon=horizon)
