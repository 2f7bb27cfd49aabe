"""Thresholds hold the stated number of false alarms, also where tails are heavy and values correlated."""

import numpy as np
import pytest
from numpy.typing import NDArray

from glaim_stream.health.habits import episodes, thresholds, units
from glaim_stream.health.series import onsets

APART = 48


def noise(seed: int, steps: int, tail: float) -> NDArray[np.float64]:
    """Four correlated series of heavy tails: moving sums of 12 values of a t distribution."""
    draws = np.abs(np.random.default_rng(seed).standard_t(tail, (4, steps + 11)))
    return np.lib.stride_tricks.sliding_window_view(draws, 12, axis=1).sum(axis=2)


@pytest.mark.parametrize("tail", [2.5, 4.0, 30.0])
@pytest.mark.parametrize("allowed", [4.0, 40.0])
def test_the_allowed_number_of_alarms_holds_on_other_readings_within_a_factor_of_two(
    tail: float, allowed: float
) -> None:
    found = []
    for seed in range(6):
        limit = thresholds([noise(seed, 100_000, tail)], APART, allowed)
        found.append(int(onsets(noise(100 + seed, 100_000, tail) > limit[:, None], APART).sum()))
    assert allowed / 2 <= np.mean(found) <= allowed * 2


def test_fewer_alarms_than_one_are_extrapolated_to_above_all_that_was_seen() -> None:
    seen = noise(1, 20_000, 4.0)
    limit = thresholds([seen], APART, 0.04)
    assert (limit > seen.max(axis=1)).all()
    assert (limit < 10 * seen.max(axis=1)).all()


def test_each_sensor_has_its_own_threshold_where_it_has_episodes_enough() -> None:
    loud = noise(2, 50_000, 4.0)
    loud[0] *= 10
    limit = thresholds([loud], APART, 4.0)
    assert limit[0] > 5 * limit[1:].max()


def test_a_sensor_with_few_episodes_gets_the_threshold_of_all() -> None:
    quiet = noise(3, 50_000, 4.0)
    quiet[2] = 0
    quiet[2, 100] = 0.5
    assert thresholds([quiet], APART, 4.0)[2] > 5


def test_without_any_episode_what_was_usual_is_the_threshold() -> None:
    assert thresholds([np.zeros((2, 1000))], APART, 1.0).tolist() == [1.0, 1.0]


def test_episodes_are_the_highest_values_that_lie_apart() -> None:
    row = np.zeros((1, 500))
    row[0, [40, 41, 200, 440]] = 3, 7, 5, 9
    assert episodes(row, 50)[0].tolist() == [9, 7, 5]


def test_a_unit_is_the_highest_episode_but_two_and_not_below_the_least() -> None:
    row = np.zeros((2, 1000))
    row[0, [0, 200, 400, 600, 800]] = 100, 90, 5, 4, 3
    assert units([row], 50, 2.0).tolist() == [5.0, 2.0]
