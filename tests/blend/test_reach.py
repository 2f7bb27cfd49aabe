"""Reach: the factors by which intervals hold, from the scores of recent probes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from glaim_stream.blend.leader import mixtures
from glaim_stream.blend.reach import AGE_COVERAGE, BLOCK, HORIZON, LEAST, LEVELS, MOST, SIZES, Reach, Scored, levels
from glaim_stream.windows import HORIZON as STEPS

Doubles = NDArray[np.float64]
SENSORS, LEVEL = 3, 4


def scored(scores: list[float] | Doubles, *, sensor: int = 0, level: int = LEVEL) -> Scored:
    """Probes whose second expert has these scores, while the first one is asleep."""
    count = len(scores)
    errors = np.full((count, 2), np.nan)
    errors[:, 1] = scores
    half, levels_of = np.ones((count, 2, 2)), np.full((count, 2), level)
    return Scored(np.full(count, sensor), errors, half, levels_of, np.zeros(count))


def learn(
    reach: Reach,
    step: int,
    scores: list[float] | Doubles,
    *,
    sensor: int = 0,
    level: int = LEVEL,
) -> None:
    reach.learn(step, scored(scores, sensor=sensor, level=level))


def factor(reach: Reach, step: int, *, sensor: int = 0, level: int = LEVEL) -> float:
    weights = np.array([[0.0, 1.0]])
    return float(reach.factors(step, weights, np.array([sensor]), np.array([level])).item())


def normal(size: float, count: int, seed: int = 0) -> Doubles:
    """Scores of normal errors whose intervals are too narrow by a factor."""
    return size * np.abs(np.random.default_rng(seed).normal(size=count)) / 1.645


def test_without_scores_the_factor_is_one() -> None:
    assert factor(Reach(2, SENSORS), 7) == 1.0


@pytest.mark.parametrize("size", [0.4, 1.0, 3.0])
def test_the_factor_is_what_the_intervals_were_short_of(size: float) -> None:
    reach = Reach(2, SENSORS)
    learn(reach, 0, normal(size, 2000))
    assert factor(reach, BLOCK) == pytest.approx(size, rel=0.1)


def test_a_score_counts_from_the_next_block_on() -> None:
    reach = Reach(2, SENSORS)
    learn(reach, 0, normal(3.0, 500))
    assert factor(reach, BLOCK - 1) == 1.0
    assert factor(reach, BLOCK) > 2.5


def test_one_miss_among_the_first_scores_moves_the_factor_little() -> None:
    reach = Reach(2, SENSORS)
    learn(reach, 0, [*normal(1.0, 20), 6.0])
    assert 1.0 < factor(reach, BLOCK) < 1.7


@pytest.mark.parametrize(("score", "limit"), [(1e300, MOST), (0.0, LEAST), (1e-300, LEAST)])
def test_the_factor_has_limits(score: float, limit: float) -> None:
    reach = Reach(2, SENSORS)
    learn(reach, 0, [score] * 5000)
    assert factor(reach, BLOCK) == limit


def test_sensors_levels_and_mixtures_have_factors_of_their_own() -> None:
    reach = Reach(2, SENSORS)
    learn(reach, 0, normal(8.0, 1000), sensor=1)
    learn(reach, 0, normal(1.0, 1000), sensor=0)
    learn(reach, 0, normal(0.5, 1000), sensor=0, level=LEVEL + 1)
    assert factor(reach, BLOCK, sensor=1) == pytest.approx(8.0, rel=0.15)
    assert factor(reach, BLOCK, sensor=0) == pytest.approx(1.0, rel=0.15)
    assert factor(reach, BLOCK, sensor=0, level=LEVEL + 1) == pytest.approx(0.5, rel=0.15)
    first = reach.factors(BLOCK, np.array([[1.0, 0.0]]), np.array([1]), np.array([LEVEL]))
    assert first.item() == pytest.approx(1.0, abs=1e-9), "the other expert has no score"


def test_a_sensor_without_scores_leans_on_its_level_and_a_level_on_all() -> None:
    reach = Reach(2, SENSORS)
    learn(reach, 0, normal(4.0, 1000), sensor=1)
    assert factor(reach, BLOCK, sensor=2) == pytest.approx(4.0, rel=0.15)
    assert factor(reach, BLOCK, sensor=2, level=LEVEL + 1) == pytest.approx(4.0, rel=0.15)


def test_the_nearest_mixture_decides_for_other_weights() -> None:
    reach = Reach(2, SENSORS)
    learn(reach, 0, normal(4.0, 1000))
    near = reach.factors(BLOCK, np.array([[0.05, 0.95]]), np.array([0]), np.array([LEVEL]))
    assert near.item() == factor(reach, BLOCK)


def test_a_score_that_is_not_known_does_not_count() -> None:
    reach = Reach(2, SENSORS)
    learn(reach, 0, [np.nan] * 100)
    assert factor(reach, BLOCK) == pytest.approx(1.0, abs=1e-9)


def test_a_jump_is_followed_within_two_blocks_and_forgotten_after_the_horizon() -> None:
    reach = Reach(2, SENSORS)
    for step in range(200):
        learn(reach, step, normal(5.0 if 96 <= step < 104 else 1.0, 4, seed=step))
    assert factor(reach, 200) == pytest.approx(1.0, rel=0.3)
    reach = Reach(2, SENSORS)
    for step in range(100 + 2 * BLOCK):
        learn(reach, step, normal(5.0 if step >= 100 else 1.0, 4, seed=step))
    assert factor(reach, 100 + 2 * BLOCK) > 2.0


def test_nothing_older_than_the_horizon_of_a_rebuild_counts() -> None:
    assert HORIZON * BLOCK + BLOCK - 1 <= STEPS
    for newest in range(200, 200 + BLOCK):
        reach = Reach(2, SENSORS)
        learn(reach, newest - STEPS, normal(9.0, 1000))
        assert factor(reach, newest) == 1.0


def test_long_gaps_have_a_factor_of_their_own_that_all_sensors_share() -> None:
    reach, long = Reach(2, SENSORS), 3 * SIZES + LEVEL
    for sensor, size in ((0, 1.0), (1, 3.0)):
        learn(reach, 0, normal(size, 1000, seed=sensor), sensor=sensor)
    learn(reach, 0, normal(4.0, 300, seed=2), sensor=0, level=long)
    short, held = factor(reach, BLOCK, sensor=1), factor(reach, BLOCK, sensor=1, level=long)
    assert short == pytest.approx(3.0, rel=0.25)
    assert held > 1.5 * short, "the sensor itself had no long gap"
    assert factor(reach, BLOCK, sensor=0, level=long) == pytest.approx(4.0, rel=0.3)


def test_a_sensor_that_is_always_right_says_nothing_about_the_ages() -> None:
    one, other = Reach(2, SENSORS), Reach(2, SENSORS)
    for reach in (one, other):
        learn(reach, 0, normal(2.0, 1000))
        learn(reach, 0, normal(4.0, 300, seed=2), level=3 * SIZES + LEVEL)
    learn(other, 0, np.zeros(1000), sensor=2, level=3 * SIZES)
    found = [factor(reach, BLOCK, level=3 * SIZES + LEVEL) for reach in (one, other)]
    assert found[1] == pytest.approx(found[0], rel=0.05)


def test_steps_of_a_silent_group_have_factors_of_their_own() -> None:
    """What is learnt there changes no factor of cells beside readings of other sensors."""
    reach, silent = Reach(2, SENSORS), LEVELS // 2
    learn(reach, 0, normal(1.0, 2000))
    learn(reach, 0, normal(3.0, 2000, seed=1), level=silent + LEVEL)
    beside, of_silent = factor(reach, BLOCK, level=LEVEL), factor(reach, BLOCK, level=silent + LEVEL)
    assert of_silent / beside == pytest.approx(3.0, rel=0.15)
    assert beside == pytest.approx(1.0, rel=0.1)


def test_the_wanted_share_grows_with_the_age() -> None:
    """Cells of one gap miss together."""
    reach = Reach(2, SENSORS)
    for age in range(len(AGE_COVERAGE)):
        learn(reach, 0, normal(1.0, 2000), level=age * SIZES + LEVEL)
    found = [factor(reach, BLOCK, level=age * SIZES + LEVEL) for age in range(len(AGE_COVERAGE))]
    assert found == sorted(found)
    assert found[-1] / found[0] == pytest.approx(1.069, abs=0.03), "93 instead of 91 % of normal errors''"


@given(
    st.lists(
        st.tuples(st.integers(0, 260), st.floats(0, 20), st.integers(0, 2), st.integers(0, LEVELS - 1)),
        max_size=80,
    )
)
@settings(max_examples=40)
def test_a_state_that_knows_the_last_steps_alone_is_the_same_to_the_bit(
    scores: list[tuple[int, float, int, int]],
) -> None:
    """Whatever came before, in whichever order the scores of a block arrive."""
    whole, rebuilt = Reach(2, SENSORS), Reach(2, SENSORS)
    ordered = sorted(scores, key=lambda each: each[0])
    for step, score, sensor, level in ordered:
        learn(whole, step, [score], sensor=sensor, level=level)
    newest = 261
    reversed_blocks = sorted(ordered, key=lambda each: (each[0] // BLOCK, -each[0], -each[1]))
    for step, score, sensor, level in reversed_blocks:
        if step >= newest - STEPS:
            learn(rebuilt, step, [score], sensor=sensor, level=level)
    every = [(sensor, level) for sensor in range(SENSORS) for level in range(LEVELS)]
    for sensor, level in every:
        assert factor(whole, newest, sensor=sensor, level=level) == factor(rebuilt, newest, sensor=sensor, level=level)


def test_an_earlier_block_is_refused() -> None:
    reach = Reach(2, SENSORS)
    learn(reach, 8, [1.0])
    with pytest.raises(ValueError, match="expected a step of block 1 or later, found 7, of block 0"):
        factor(reach, 7)


def test_the_memory_does_not_grow() -> None:
    reach = Reach(2, SENSORS)
    for step in range(0, 4000, 2):
        learn(reach, step, [1.0])
    assert len(reach._places) <= HORIZON


def test_scores_are_errors_in_shares_of_the_side_on_which_the_truth_lies() -> None:
    every = mixtures(2)
    half = np.repeat([[[1.0, 2.0], [4.0, 4.0]]], 4, axis=0)
    errors = np.array([[2.0, -2.0], [-4.0, -6.0], [np.nan, 0.0], [1.0, 0.1]])
    probes = Scored(np.zeros(4, np.int64), errors, half, np.tile([2, 5], (4, 1)), np.full(4, 0.1))
    scores, level = probes.scores(every)
    model, baseline, mean = (int(np.flatnonzero((every == row).all(axis=1))[0]) for row in ([1, 0], [0, 1], [0.5, 0.5]))
    np.testing.assert_allclose(scores[:, model], [1.9 / 1.0, 3.9 / 2.0, np.nan, 0.9 / 1.0])
    np.testing.assert_allclose(scores[:, baseline], [1.9 / 4.0, 5.9 / 4.0, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(scores[:, mean], [0.0, 4.9 / 2.0, np.nan, 0.45 / 1.0], atol=1e-12)
    assert (level[0, model], level[0, baseline], level[0, mean]) == (2, 5, 2)


def test_a_half_width_of_zero_holds_an_exact_value_alone_and_one_that_is_not_known_nothing() -> None:
    half = np.array([[[0.0, 0.0], [np.nan, np.nan]]] * 2)
    sensor, errors, level = np.zeros(2, np.int64), np.array([[0.0, 0.0], [3.0, 0.0]]), np.zeros((2, 2), int)
    probes = Scored(sensor, errors, half, level, np.zeros(2))
    scores = probes.scores(np.eye(2))[0]
    np.testing.assert_array_equal(scores, [[0.0, np.nan], [np.inf, np.nan]])


def test_levels_are_octaves_of_the_span_and_classes_of_gap_ages() -> None:
    half = np.array([[1.0, 1.0], [0.3, 0.3], [0.1, 0.3], [1e-9, 1e-9], [0.0, 0.0], [1e9, 1e9], [np.nan, np.nan]])
    single, alone = np.ones(7, np.int64), np.zeros(7, np.bool_)
    assert levels(half, np.ones(7), single, alone).tolist() == [7, 7, 6, 0, 0, 7, 0]
    assert levels(half[:1], np.zeros(1), single[:1], alone[:1]).tolist() == [7], "of a sensor that never changed"
    assert levels(half[:1], np.full(1, np.inf), single[:1], alone[:1]).tolist() == [0], "of one whose span is not known"
    ages = np.array([1, 2, 4, 5, 16, 17, 48])
    assert levels(np.ones((7, 2)), np.ones(7), ages, alone).tolist() == [7, 15, 15, 23, 23, 31, 31]
    assert levels(np.ones((7, 2)), np.ones(7), ages, ~alone).tolist() == [39, 47, 47, 55, 55, 63, 63], "a silent group"
