"""What is judged of drift: means of residuals over a window, and whom the others are calm without."""

import numpy as np

from glaim_stream.health import drift
from glaim_stream.health.drift import BLOCKS
from glaim_stream.health.estimates import Estimates

CORRELATED = np.full((4, 4), 0.9) + 0.1 * np.eye(4)
ESTIMATES = Estimates(np.array([1.0, 10.0, 0.1, 1e-6]), CORRELATED)
LIMIT = np.full(4, 0.5)


def level(columns: int = 2 * BLOCKS) -> np.ndarray:
    return np.zeros((4, columns))


def test_a_mean_is_that_of_the_newest_blocks_in_any_unit() -> None:
    drawn = np.random.default_rng(1).normal(size=(4, 30)) * ESTIMATES.scale[:, None]
    found = drift.recent(drawn, ESTIMATES.scale)
    expected = drawn[:, 30 - BLOCKS :].mean(axis=1)
    np.testing.assert_allclose(found[:, -1], expected, atol=1e-4 * ESTIMATES.scale.max(), rtol=1e-3)
    np.testing.assert_allclose(found[3, -1], expected[3], rtol=1e-2)


def test_a_sensor_without_its_newest_block_or_half_of_all_has_no_mean() -> None:
    deviation = level()
    deviation[0, -1] = np.nan
    deviation[1, -BLOCKS : -BLOCKS // 2] = np.nan
    deviation[2, -BLOCKS : -BLOCKS // 2 + 1] = np.nan
    found = drift.recent(deviation, ESTIMATES.scale)[:, -1]
    assert np.isfinite(found).tolist() == [False, True, False, True]


def test_estimates_by_fewer_than_half_of_the_sensors_are_not_judged() -> None:
    means = np.array([[5.0, 5.0], [0.0, np.nan], [np.nan, np.nan], [np.nan, np.nan]])
    found = drift.statistic(ESTIMATES, means)
    assert found[0, 0] > 1
    assert not found[:, 1].any()


def test_a_doubted_sensor_is_not_at_fault_and_its_neighbours_neither() -> None:
    deviation = level()
    deviation[0] = 8.0
    doubted = np.zeros(deviation.shape, np.bool_)
    fault, _, score = drift.at_fault(deviation, doubted, ESTIMATES, LIMIT)
    assert (score[1:, -1] > 1).all()
    assert fault[:, -1].tolist() == [True, False, False, False]
    doubted[0, -BLOCKS] = True
    assert not drift.at_fault(deviation, doubted, ESTIMATES, LIMIT)[0][:, -1].any()
    doubted[0, -BLOCKS:] = False
    doubted[0, -BLOCKS - 1] = True
    assert drift.at_fault(deviation, doubted, ESTIMATES, LIMIT)[0][0, -1]


def test_the_unrest_is_the_highest_score_without_those_at_fault() -> None:
    rest = {(False, False, False): [1.5, 0.9, 0.3], (True, False, False): [0.0, 0.4, 0.2]}
    rest |= {(False, True, False): [1.4, 0.0, 0.3], (False, False, True): [1.5, 0.9, 0.0]}

    def scores(without: np.ndarray) -> np.ndarray:
        return np.array(rest[tuple(without.tolist())])

    found = drift.culprits(scores, np.array([1.5, 0.9, 0.3]), np.zeros(3, np.bool_))
    assert found.fault.tolist() == found.suspects.tolist() == [True, False, False]
    assert found.decided
    assert found.unrest == 0.4


def test_as_long_as_another_sensor_may_be_at_fault_it_is_not_decided() -> None:
    def scores(without: np.ndarray) -> np.ndarray:
        return np.array([0.9, 0.8, 0.2]) if without[:2].any() else np.array([1.5, 1.4, 0.3])

    found = drift.culprits(scores, np.array([1.5, 1.4, 0.3]), np.zeros(3, np.bool_))
    assert found.fault.sum() == 1
    assert found.suspects.tolist() == [True, True, False]
    assert not found.decided


def test_the_block_that_decides_tells_who_was_at_fault_before() -> None:
    """Two of three sensors follow one another; which of them drifts is known once it leaves the range of the third."""
    correlation = np.array([[1.0, 0.98, 0.9], [0.98, 1.0, 0.9], [0.9, 0.9, 1.0]])
    estimates, limit = Estimates(np.ones(3), correlation), np.array([0.5, 0.5, 1.0])
    deviation = np.zeros((3, 40))
    deviation[1] = np.maximum(np.arange(40) - 10, 0) * 0.1
    at_once, sure, _ = drift.at_fault(deviation[:, :22], deviation[:, :22] > 9, estimates, limit)
    assert at_once[:2, -1].any()
    assert not sure.any()
    fault, sure, score = drift.at_fault(deviation, deviation > 9, estimates, limit)
    later = np.flatnonzero(score.max(axis=0) > 1)
    assert sure[later].all()
    assert fault[:, later].all(axis=1).tolist() == [False, True, False]
    assert not fault[0].any()
