"""The experts: the leader decides until an expert does better, and errors are forgotten."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from glaim_stream.blend.experts import Experts
from glaim_stream.windows import HORIZON
from tests.blend.oracle import Error, Key, Oracle

NAN = float("nan")


def learned(
    errors: list[tuple[float, ...]], *, first: int = 0, sensor: int = 0, age: int = 0, place: int = 0
) -> Experts:
    """Experts of two sensors, three age classes and two places, after one error per step with the same key."""
    experts = Experts(len(errors[0]), 2, 3, 2)
    for step, error in enumerate(errors, first):
        learn(experts, step, *error, sensor=sensor, age=age, place=place)
    return experts


def learn(experts: Experts, step: int, *errors: float, sensor: int = 0, age: int = 0, place: int = 0) -> None:
    key = (np.array([each]) for each in (sensor, age, place))
    experts.learn(experts.weights(step), *key, np.array([errors]))


def shares(experts: Experts, step: int) -> NDArray[np.float64]:
    """The first expert's share by sensor, age class and place."""
    return experts.weights(step).table()[..., 0]


def share(experts: Experts, step: int) -> float:
    return float(shares(experts, step)[0, 0, 0])


@pytest.mark.parametrize("count", [2, 3, 4])
def test_before_any_error_all_experts_have_the_same_weight(count: int) -> None:
    assert np.allclose(Experts(count, 2, 3, 2).weights(7).table(), 1 / count)


def test_the_better_method_gets_the_whole_share() -> None:
    assert share(learned([(0.1, 0.2), (-0.1, -0.3)]), 2) == 1.0
    assert share(learned([(0.2, 0.1), (-0.3, -0.1)]), 2) == 0.0


def test_a_mixture_leads_when_the_errors_have_opposite_signs() -> None:
    assert share(learned([(1.0, -1.0), (-1.0, 1.0)]), 2) == 0.5
    assert share(learned([(3.0, -1.0), (-3.0, 1.0)]), 2) == 0.25


def test_the_share_is_one_half_when_model_and_baseline_agree() -> None:
    assert share(learned([(1.0, 1.0)]), 1) == 0.5


def test_an_outlier_does_not_change_the_leader() -> None:
    usual = [(0.1, 0.2)] * 30
    assert share(learned([*usual, (1e6, 0.2), *usual[:3]]), 34) == 1.0


def test_a_jump_of_the_level_changes_the_leader_within_a_few_errors() -> None:
    assert share(learned([(0.1, 0.2)] * 30 + [(50.0, 0.2)] * 10), 40) == 0.0


def test_a_key_without_errors_uses_the_errors_of_its_place_and_then_of_its_sensor() -> None:
    experts = learned([(0.1, 1.0)] * 20, age=1)
    for step in range(20, 40):
        learn(experts, step, 1.0, 0.1, age=1, place=1)
    weights = shares(experts, 40)
    assert (weights[0, :, 0] == 1.0).all()
    assert (weights[0, :, 1] == 0.0).all()
    assert (shares(learned([(0.1, 1.0)] * 20), 20)[0] == 1.0).all(), "errors of another place count"


def test_a_sensor_without_errors_uses_those_of_other_sensors_at_the_place() -> None:
    experts = learned([(0.1, 1.0)] * 20)
    for step in range(20, 40):
        learn(experts, step, 1.0, 0.1, place=1)
    assert shares(experts, 40)[1].tolist() == [[1.0, 0.0]] * 3
    assert (shares(learned([(0.1, 1.0)] * 20), 20)[1, :, 1] == 0.5).all(), "another sensor's other places do not count"


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_one_error_of_a_sensor_weighs_less_than_those_of_another_one_and_five_weigh_more(unit: float) -> None:
    """The size of the other sensor's errors does not matter."""
    experts = learned([(unit, 0.1 * unit)] * 48)
    learn(experts, 48, 0.1, 1.0, sensor=1)
    assert shares(experts, 49)[1, 0, 0] == 0.0
    for step in range(49, 53):
        learn(experts, step, 0.1, 1.0, sensor=1)
    assert shares(experts, 53)[1, 0, 0] == pytest.approx(1.0, abs=0.01)


def test_after_a_jump_the_errors_of_other_sensors_do_not_count() -> None:
    """A second sensor, for which the first expert stays the better one, delays the change of the leader by no step."""
    errors = [*[(0.1, 0.2)] * 30, *[(50.0, 0.2)] * 10]
    alone, beside = Experts(2, 2, 3, 2), Experts(2, 2, 3, 2)
    ints = np.zeros(2, np.int64)
    changed = []
    for step, error in enumerate(errors):
        learn(alone, step, *error)
        beside.learn(beside.weights(step), np.arange(2), ints, ints, np.array([error, (0.1, 0.2)]))
        changed.append([each.weights(step + 1).table()[0, 0, 0, 0] < 0.5 for each in (alone, beside)])
    assert [each[0] for each in changed] == [each[1] for each in changed]
    assert changed[29] == [False, False]
    assert changed[39] == [True, True]


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 11), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), max_size=60)
)
def test_errors_older_than_the_horizon_leave_no_trace(
    history: list[tuple[int, int, float, float]],
) -> None:
    live, step, steps = Experts(2, 2, 3, 2), 0, []
    for passed, key, model, baseline in history:
        step += passed
        steps.append(step)
        sensor, age, place = (int(each) for each in np.unravel_index(key, (2, 3, 2)))
        learn(live, step, model, baseline, sensor=sensor, age=age, place=place)
        live.weights(step + 1)
    rebuilt = Experts(2, 2, 3, 2)
    for at, (_, key, model, baseline) in zip(steps, history, strict=True):
        if at > step + 1 - HORIZON:
            sensor, age, place = (int(each) for each in np.unravel_index(key, (2, 3, 2)))
            learn(rebuilt, at, model, baseline, sensor=sensor, age=age, place=place)
    assert np.array_equal(live.weights(step + 1).table(), rebuilt.weights(step + 1).table())


def test_an_unknown_error_does_not_count() -> None:
    assert (shares(learned([(NAN, 1.0), (1.0, np.inf)]), 2) == 0.5).all()


def test_the_errors_of_a_step_cannot_affect_its_own_weights() -> None:
    experts = learned([(1.0, 2.0)] * 4)
    with pytest.raises(ValueError, match="a step after 3, whose errors are known, found 3"):
        experts.weights(3)
    used = learned([(1.0, 2.0)] * 3).weights(3)
    ints = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="a step after 3, found 3"):
        experts.learn(used, ints, ints, ints, np.ones((1, 2)))


def test_a_loss_is_capped_at_one_and_a_half_times_the_usual_error() -> None:
    """Two losses of 1 for the baseline outweigh one of 10 for the model, which counts as 1.5; a second one does not."""
    usual = [(0.0, 1.0), (0.0, 1.0)]
    assert share(learned([*usual, (10.0, 0.0)]), 3) == 1.0
    assert share(learned([*usual, (10.0, 0.0), (10.0, 0.0)]), 4) == 0.0


def test_the_usual_error_is_measured_per_sensor_and_place() -> None:
    experts = learned([(100.0, 100.0)], place=1)
    for step, (model, baseline) in enumerate([(0.0, 1.0), (0.0, 1.0), (10.0, 0.0)], 1):
        learn(experts, step, model, baseline, sensor=1)
    assert shares(experts, 4)[1, 0, 0] == 1.0


def test_the_first_error_after_exact_answers_is_capped_at_zero() -> None:
    """The usual error is that of the earlier steps, and no multiple of 0 is more than 0."""
    exact = [(0.0, 0.0)] * 2
    assert share(learned([*exact, (1.0, 2.0)]), 3) == 0.5
    assert share(learned([*exact, (1.0, 2.0), (1.0, 2.0)]), 4) == 1.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("errors", [(1.0, 5e-324), (5e-324, 1.0), (1e308, 1e308), (0.0, 5e-324)])
def test_errors_of_any_size_are_learnt_without_a_warning(errors: tuple[float, float]) -> None:
    weights = shares(learned([(error / 2, error) for error in errors]), 2)
    assert ((weights >= 0.5) & (weights <= 1.0)).all()
    assert weights[0, 0, 0] > 0.5 or errors != (1.0, 5e-324), "the model is better, where that can be told"


def test_of_four_experts_the_best_one_that_is_awake_leads() -> None:
    experts = learned([(1.0, 0.1, 0.5, 2.0)] * 10)
    key = np.zeros(3, np.int64)
    awake = np.array([[True] * 4, [True, False, True, True], [False] * 4])
    assert experts.weights(10).of(key, key, key, awake).tolist() == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]


def test_an_expert_that_slept_keeps_its_rank() -> None:
    """The errors of the others do not count against it, nor for it."""
    before = [(0.1, 1.0, 2.0)] * 10
    assert share(learned([*before, *[(NAN, 1.0, 2.0)] * 10]), 20) == 1.0
    assert share(learned([(1.0, 0.1, 2.0), *[(NAN, 0.1, 2.0)] * 10]), 11) == 0.0


def test_an_expert_that_was_never_awake_does_not_lead() -> None:
    assert learned([(NAN, 1.0, 2.0)] * 3).weights(3).table()[0, 0, 0].tolist() == [0, 1, 0]


def test_a_cell_with_one_expert_awake_does_not_count() -> None:
    assert np.allclose(learned([(NAN, 1.0, NAN)] * 3).weights(3).table(), 1 / 3)


def test_weights_that_were_read_early_may_be_learnt_with() -> None:
    """Two steps' weights are read before the errors of the first one are known."""
    experts = Experts(2, 1, 1, 1)
    used = [experts.weights(step) for step in (5, 6)]
    ints = np.zeros(1, np.int64)
    for each in used:
        experts.learn(each, ints, ints, ints, np.array([[0.1, 1.0]]))
    assert share(experts, 7) == 1.0


ERRORS = st.one_of(st.none(), st.floats(-10, 10), st.sampled_from([0.0, 1e6, -1e6]))
CELLS = st.lists(
    st.tuples(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 1)), st.tuples(*[ERRORS] * 4))
)


def columns(cells: list[tuple[Key, tuple[Error, ...]]], count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    keys = np.array([key for key, _ in cells], np.int64).reshape(-1, 3)
    return keys.T, np.array([errors for _, errors in cells], np.float64).reshape(-1, count)


@given(count=st.integers(2, 4), steps=st.lists(st.tuples(st.integers(1, 30), CELLS), max_size=20))
@settings(max_examples=30, deadline=None)
def test_the_weights_are_those_of_plain_loops(
    count: int, steps: list[tuple[int, list[tuple[Key, tuple[Error, ...]]]]]
) -> None:
    """Whatever sleeps, jumps or pauses; errors are distinct, so that rounding does not choose the leader."""
    rng = np.random.default_rng(len(steps))
    experts, oracle, step = Experts(count, 2, 3, 2), Oracle(count), 0
    for passed, drawn in steps:
        step += passed
        cells = [
            (key, tuple(None if error is None else error + rng.normal() for error in errors[:count]))
            for key, errors in drawn
        ]
        keys, errors = columns(cells, count)
        experts.learn(experts.weights(step), *keys, errors)
        oracle.learn(step, cells)
        key = tuple(int(rng.integers(size)) for size in (2, 3, 2))
        awake = rng.random(count) < 0.7
        awake[rng.integers(count)] = True
        found = experts.weights(step + 1).of(*(np.array([each]) for each in key), awake[None])[0]
        expected = oracle.weights(step + 1, key, awake.tolist())
        assume(not oracle.ambiguous)
        assert found == pytest.approx(expected, abs=1e-12, rel=0)


def test_the_experts_are_rebuilt_to_the_bit_from_the_last_horizon() -> None:
    """With jumps, sleepers and hedging, at every step of more than two blocks."""
    rng = np.random.default_rng(3)
    live, history, least = Experts(4, 2, 3, 2), [], 1.0
    for step in range(3 * HORIZON):
        cells = int(rng.integers(0, 5))
        keys = [rng.integers(size, size=cells) for size in (2, 3, 2)]
        scale = 1e6 if step % 71 > 60 else 1.0
        errors = scale * 0.1 * rng.normal(size=(cells, 4))
        errors[:, live.weights(step).table()[0, 0, 0].argmax()] = scale  # the leader is always wrong
        errors[rng.random(errors.shape) < 0.2] = NAN
        history.append((step, keys, errors))
        live.learn(live.weights(step), *keys, errors)
        if step % 7 == 0:
            rebuilt = Experts(4, 2, 3, 2)
            for at, its_keys, its_errors in history[-HORIZON + 1 :]:
                rebuilt.learn(rebuilt.weights(at), *its_keys, its_errors)
            weights = live.weights(step + 1)
            assert np.array_equal(weights.table(), rebuilt.weights(step + 1).table())
            least = min(least, weights.hedge[:, 0].min())
    assert least < 0.9, "the sequence must make the experts hedge"
