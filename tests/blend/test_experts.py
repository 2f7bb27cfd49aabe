"""The experts: how errors decide which expert leads, and how they are forgotten."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.blend.experts import SHARES, Experts
from glaim_stream.windows.history import HORIZON


def learned(
    errors: list[tuple[float, float]], *, first: int = 0, sensor: int = 0, age: int = 0, place: int = 0
) -> Experts:
    """Experts of two sensors, three age classes and two places, after one error per step with the same key."""
    experts = Experts(2, 3, 2)
    for step, error in enumerate(errors, first):
        learn(experts, step, *error, sensor=sensor, age=age, place=place)
    return experts


def learn(
    experts: Experts, step: int, model: float, baseline: float, *, sensor: int = 0, age: int = 0, place: int = 0
) -> None:
    key = (np.array([each]) for each in (sensor, age, place))
    experts.learn(step, *key, np.array([model]), np.array([baseline]))


def test_before_any_error_the_model_has_a_share_of_one_half() -> None:
    assert (Experts(2, 3, 2).weights(7) == 0.5).all()


def test_the_better_method_gets_the_whole_share() -> None:
    assert learned([(0.1, 0.2), (-0.1, -0.3)]).weights(2)[0, 0, 0] == 1.0
    assert learned([(0.2, 0.1), (-0.3, -0.1)]).weights(2)[0, 0, 0] == 0.0


def test_a_mixture_leads_when_the_errors_have_opposite_signs() -> None:
    assert learned([(1.0, -1.0), (-1.0, 1.0)]).weights(2)[0, 0, 0] == 0.5
    assert learned([(3.0, -1.0), (-3.0, 1.0)]).weights(2)[0, 0, 0] == 0.25


def test_the_share_is_one_half_when_model_and_baseline_agree() -> None:
    assert learned([(1.0, 1.0)]).weights(1)[0, 0, 0] == SHARES.mean()


def test_an_outlier_does_not_change_the_leader() -> None:
    usual = [(0.1, 0.2)] * 30
    assert learned([*usual, (1e6, 0.2), *usual[:3]]).weights(34)[0, 0, 0] == 1.0


def test_a_jump_of_the_level_changes_the_leader_within_a_few_errors() -> None:
    assert learned([(0.1, 0.2)] * 30 + [(50.0, 0.2)] * 10).weights(40)[0, 0, 0] == 0.0


def test_a_key_without_errors_uses_the_errors_of_its_place_and_then_of_its_sensor() -> None:
    experts = learned([(0.1, 1.0)] * 20, age=1)
    for step in range(20, 40):
        learn(experts, step, 1.0, 0.1, age=1, place=1)
    weights = experts.weights(40)
    assert (weights[0, :, 0] == 1.0).all()
    assert (weights[0, :, 1] == 0.0).all()
    assert (weights[1] == 0.5).all(), "errors of another sensor do not count"
    assert (learned([(0.1, 1.0)] * 20).weights(20)[0] == 1.0).all(), "errors of another place count"


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 11), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), max_size=60)
)
def test_errors_older_than_the_horizon_leave_no_trace(
    history: list[tuple[int, int, float, float]],
) -> None:
    live, step, steps = Experts(2, 3, 2), 0, []
    for passed, key, model, baseline in history:
        step += passed
        steps.append(step)
        sensor, age, place = (int(each) for each in np.unravel_index(key, (2, 3, 2)))
        learn(live, step, model, baseline, sensor=sensor, age=age, place=place)
        live.weights(step + 1)
    rebuilt = Experts(2, 3, 2)
    for at, (_, key, model, baseline) in zip(steps, history, strict=True):
        if at > step + 1 - HORIZON:
            sensor, age, place = (int(each) for each in np.unravel_index(key, (2, 3, 2)))
            learn(rebuilt, at, model, baseline, sensor=sensor, age=age, place=place)
    assert np.array_equal(live.weights(step + 1), rebuilt.weights(step + 1))


def test_an_unknown_error_does_not_count() -> None:
    assert (learned([(np.nan, 1.0), (1.0, np.inf)]).weights(2) == 0.5).all()


def test_the_errors_of_a_step_cannot_affect_its_own_weights() -> None:
    experts = learned([(1.0, 2.0)] * 4)
    with pytest.raises(ValueError, match="a step after 3, whose errors are known, found 3"):
        experts.weights(3)
    with pytest.raises(ValueError, match="a step after 3, found 3"):
        learn(experts, 3, 1.0, 1.0)


def test_a_loss_is_capped_at_one_and_a_half_times_the_usual_error() -> None:
    """Two losses of 1 for the baseline outweigh one of 10 for the model, which counts as 1.5; a second one does not."""
    usual = [(0.0, 1.0), (0.0, 1.0)]
    assert learned([*usual, (10.0, 0.0)]).weights(3)[0, 0, 0] == 1.0
    assert learned([*usual, (10.0, 0.0), (10.0, 0.0)]).weights(4)[0, 0, 0] == 0.0


def test_the_usual_error_is_measured_per_sensor_and_place() -> None:
    experts = learned([(100.0, 100.0)], place=1)
    for step, (model, baseline) in enumerate([(0.0, 1.0), (0.0, 1.0), (10.0, 0.0)], 1):
        learn(experts, step, model, baseline, sensor=1)
    assert experts.weights(4)[1, 0, 0] == 1.0


def test_the_first_error_after_exact_answers_is_capped_at_zero() -> None:
    """The usual error is that of the earlier steps, and no multiple of 0 is more than 0."""
    exact = [(0.0, 0.0)] * 2
    assert learned([*exact, (1.0, 2.0)]).weights(3)[0, 0, 0] == 0.5
    assert learned([*exact, (1.0, 2.0), (1.0, 2.0)]).weights(4)[0, 0, 0] == 1.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("errors", [(1.0, 5e-324), (5e-324, 1.0), (1e308, 1e308), (0.0, 5e-324)])
def test_errors_of_any_size_are_learnt_without_a_warning(errors: tuple[float, float]) -> None:
    weights = learned([(error / 2, error) for error in errors]).weights(2)
    assert ((weights >= 0.5) & (weights <= 1.0)).all()
    assert weights[0, 0, 0] > 0.5 or max(errors) in (1e308, 5e-324), "the model is better, where that can be told"
