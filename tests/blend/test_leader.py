"""The leader: which mixtures there are, which sleep, and how their losses are counted."""

import numpy as np
import pytest

from glaim_stream.blend.leader import CAP, Leader, LossColumns, Standings, awake_mixtures, mixture_losses, mixtures

ZERO = np.zeros(1, np.int64)
ALL = np.ones((1, 3), np.bool_)


def test_one_or_two_experts_mix_by_quarters() -> None:
    assert mixtures(2)[:, 0].tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert [len(np.unique(mixtures(count), axis=0)) for count in (2, 3, 4)] == [5, 12, 22]
    assert all((mixtures(count).sum(axis=1) == 1).all() for count in (2, 3, 4))
    assert set(np.unique(mixtures(4)).tolist()) == {0, 0.25, 0.5, 0.75, 1}
    assert (mixtures(4) > 0).sum(axis=1).max() == 2


def test_mixtures_of_the_same_experts_share_their_count() -> None:
    columns = LossColumns.of(mixtures(2))
    assert len(columns.sets) == 3
    assert len(columns) == 8
    sums = np.array([[1, 2, 3, 4, 5, *np.where(columns.sets.all(axis=1), 2, columns.sets[:, 0] * 4)]], np.float64)
    assert columns.means(sums)[0, :5].tolist() == [1, 1, 1.5, 2, 1.25], "a sum without a count is not divided"
    assert columns.means(np.zeros((1, 8))).tolist() == [[0] * 8]


def test_a_mixture_sleeps_while_one_of_its_experts_does() -> None:
    mixed = np.array([[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]])
    awake = np.array([[True, True, True], [True, True, False], [False, False, True]])
    assert awake_mixtures(mixed, awake).tolist() == [[True, True, True], [True, True, False], [False, False, False]]


def test_the_loss_of_a_mixture_is_the_size_of_its_error() -> None:
    mixed = np.array([[1, 0, 0], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    assert mixture_losses(np.array([[-4.0, 4.0, 1.0]]), mixed).tolist() == [[4.0, 1.5, 0.0]]


def test_mixtures_that_are_equally_good_lead_together() -> None:
    columns = LossColumns.of(np.eye(3))
    sums = np.where(np.arange(6) < 3, 0.5, 1.0)
    standings = Standings(columns, sums.reshape(1, 1, 1, 6), np.zeros((1, 1, 6)), np.zeros((1, 1)))
    assert standings.leader(ZERO, ZERO, ZERO, ALL)[0] == pytest.approx([1 / 3] * 3)
    assert standings.leader(ZERO, ZERO, ZERO, np.array([[True, False, True]]))[0].tolist() == [0.5, 0, 0.5]
    assert standings.leader(ZERO, ZERO, ZERO, ~ALL)[0].tolist() == [0, 0, 0]


def learned(*steps: tuple[list[float], list[bool]]) -> Leader:
    """A leader of three experts after one cell a step: errors, and who was awake."""
    leader = Leader(3, 1, 1, 1)
    for step, (errors, awake) in enumerate(steps):
        leader.learn(step, ZERO, ZERO, ZERO, np.array([errors]), np.array([awake]))
    return leader


def single(standings: Standings) -> dict[int, float]:
    """Mean losses of the experts alone."""
    mixed, losses = standings.columns.mixtures, standings.losses(ZERO, ZERO, ZERO)[0]
    alone = mixed.max(axis=1) == 1
    return dict(zip(mixed[alone].argmax(axis=1).tolist(), losses[alone].tolist(), strict=True))


def test_a_sleeper_keeps_its_mean_loss_and_has_none_before_it_wakes() -> None:
    up, third_sleeps = [True, True, True], [True, True, False]
    found = single(learned(([1.0, 2.0, 0.0], third_sleeps), ([1.0, 2.0, 0.0], third_sleeps)).standings(2))
    assert found == {0: pytest.approx(1.0), 1: pytest.approx(2.0), 2: np.inf}
    found = single(learned(([1.0, 2.0, 1.5], up), *[([1.0, 2.0, 0.0], third_sleeps)] * 5).standings(6))
    assert found == {0: pytest.approx(1.0), 1: pytest.approx(2.0), 2: pytest.approx(1.5)}


def test_the_cap_is_one_and_a_half_times_the_usual_largest_error() -> None:
    assert learned(*[([1.0, -2.0, 0.5], [True] * 3)] * 3).standings(3).cap[0, 0] == pytest.approx(CAP * 2.0)
    assert learned().standings(0).cap[0, 0] == 0
