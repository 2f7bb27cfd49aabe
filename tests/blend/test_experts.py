"""The experts: who leads after which errors, what is forgotten, and what cannot be used."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.blend.experts import SHARES, Experts
from glaim_stream.windows.history import HORIZON


def told(
    errors: list[tuple[float, float]], *, first: int = 0, sensor: int = 0, age: int = 0, place: int = 0
) -> Experts:
    """An error of model and baseline a step, of one key of two sensors, three age classes and two places."""
    experts = Experts(2, 3, 2)
    for step, error in enumerate(errors, first):
        learn(experts, step, *error, sensor=sensor, age=age, place=place)
    return experts


def learn(
    experts: Experts, step: int, model: float, baseline: float, *, sensor: int = 0, age: int = 0, place: int = 0
) -> None:
    key = (np.array([each]) for each in (sensor, age, place))
    experts.learn(step, *key, np.array([model]), np.array([baseline]))


def test_before_any_error_both_have_one_half() -> None:
    assert (Experts(2, 3, 2).weights(7) == 0.5).all()


def test_the_better_method_has_the_whole_say() -> None:
    assert told([(0.1, 0.2), (-0.1, -0.3)]).weights(2)[0, 0, 0] == 1.0
    assert told([(0.2, 0.1), (-0.3, -0.1)]).weights(2)[0, 0, 0] == 0.0


def test_where_both_err_apart_a_mixture_leads() -> None:
    assert told([(1.0, -1.0), (-1.0, 1.0)]).weights(2)[0, 0, 0] == 0.5
    assert told([(3.0, -1.0), (-3.0, 1.0)]).weights(2)[0, 0, 0] == 0.25


def test_answers_that_are_the_same_leave_the_middle() -> None:
    assert told([(1.0, 1.0)]).weights(1)[0, 0, 0] == SHARES.mean()


def test_one_wild_error_decides_nothing() -> None:
    usual = [(0.1, 0.2)] * 30
    assert told([*usual, (1e6, 0.2), *usual[:3]]).weights(34)[0, 0, 0] == 1.0


def test_a_jump_of_the_level_changes_the_leader_within_a_few_errors() -> None:
    assert told([(0.1, 0.2)] * 30 + [(50.0, 0.2)] * 10).weights(40)[0, 0, 0] == 0.0


def test_what_was_never_asked_leans_on_its_place_first_and_then_on_its_sensor() -> None:
    experts = told([(0.1, 1.0)] * 20, age=1)
    for step in range(20, 40):
        learn(experts, step, 1.0, 0.1, age=1, place=1)
    weights = experts.weights(40)
    assert (weights[0, :, 0] == 1.0).all()
    assert (weights[0, :, 1] == 0.0).all()
    assert (weights[1] == 0.5).all(), "another sensor says nothing"
    assert (told([(0.1, 1.0)] * 20).weights(20)[0] == 1.0).all(), "another place does"


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 11), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), max_size=60)
)
def test_what_is_older_than_the_horizon_is_forgotten_to_the_bit(
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


def test_an_error_that_nobody_knows_does_not_count() -> None:
    assert (told([(np.nan, 1.0), (1.0, np.inf)]).weights(2) == 0.5).all()


def test_the_error_of_the_step_that_is_asked_for_cannot_be_used() -> None:
    experts = told([(1.0, 2.0)] * 4)
    with pytest.raises(ValueError, match="a step after 3, whose errors are known, found 3"):
        experts.weights(3)
    with pytest.raises(ValueError, match="a step after 3, found 3"):
        learn(experts, 3, 1.0, 1.0)
