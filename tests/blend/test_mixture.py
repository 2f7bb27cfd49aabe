"""The blend follows recent error, never the value it is asked for, and stays between its two answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from glaim_stream.blend.mixture import START, RecentError, blend
from glaim_stream.windows.history import HORIZON

number = st.floats(-1e6, 1e6)
error = st.one_of(st.floats(-1e3, 1e3), st.just(float("nan")))
errors = arrays.arrays(np.float64, st.tuples(st.integers(1, 150), st.just(2), st.just(3)), elements=error)


def told(history: np.ndarray, first: int = 0, **options: float) -> RecentError:
    """A state that was told history [steps, model or baseline, keys], beginning at step `first`."""
    state = RecentError(history.shape[-1], **options)  # type: ignore[arg-type]
    for step, (model, baseline) in enumerate(history, start=first):
        state.update(step, model, baseline)
    return state


@given(first=number, second=number, weight=st.floats(0, 1))
@settings(max_examples=200, deadline=None)
def test_the_blend_lies_between_its_answers(first: float, second: float, weight: float) -> None:
    mixed = blend(np.array([first]), np.array([second]), np.array([weight]))[0]
    assert min(first, second) <= mixed <= max(first, second)


@given(history=errors)
@settings(max_examples=100, deadline=None)
def test_weights_are_shares_whatever_the_history(history: np.ndarray) -> None:
    weights = told(history).weights(len(history))
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()
    assert (weights <= 1).all()


@given(history=errors, begin=st.integers(0, 1000), later=st.integers(0, 120))
@settings(max_examples=200, deadline=None)
def test_a_state_rebuilt_from_the_last_96_steps_gives_the_same_weights_to_the_bit(
    history: np.ndarray, begin: int, later: int
) -> None:
    asked = begin + len(history) + later
    kept = max(0, asked - HORIZON - begin)
    whole, rebuilt = told(history, begin), told(history[kept:], begin + kept)
    assert np.array_equal(whole.weights(asked), rebuilt.weights(asked))


@given(history=errors, scale=st.sampled_from([1e-6, 0.3, 7.0, 1e9]))
@settings(max_examples=100, deadline=None)
def test_the_unit_of_the_values_changes_nothing(history: np.ndarray, scale: float) -> None:
    history = np.where(np.abs(history) < 1e-6, 0.0, history)
    step = len(history)
    np.testing.assert_allclose(told(scale * history).weights(step), told(history).weights(step), rtol=1e-6, atol=1e-6)


@given(history=errors)
@settings(max_examples=100, deadline=None)
def test_equal_errors_give_equal_weights(history: np.ndarray) -> None:
    history = np.where(np.abs(history) < 1e-100, 0.0, history)  # whose squares would lose digits by underflow
    history[:, 1] = history[:, 0]
    np.testing.assert_allclose(told(history).weights(len(history)), np.full(3, 0.5), rtol=1e-12)


@given(history=errors)
@settings(max_examples=100, deadline=None)
def test_exchanging_the_methods_exchanges_the_weights(history: np.ndarray) -> None:
    step = len(history)
    np.testing.assert_allclose(
        told(history[:, ::-1]).weights(step), 1 - told(history).weights(step), rtol=1e-9, atol=1e-9
    )


@given(history=errors, seed=st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_missing_errors_do_not_count(history: np.ndarray, seed: int) -> None:
    missing = np.random.default_rng(seed).random(len(history)) < 0.5
    holey = history.copy()
    holey[missing, 0] = np.nan  # one of the two is enough
    state = RecentError(3)
    for step in np.flatnonzero(~missing):
        state.update(int(step), *history[step])
    assert np.array_equal(told(holey).weights(len(history)), state.weights(len(history)))


def test_keys_do_not_touch_each_other() -> None:
    history = np.random.default_rng(0).standard_normal((60, 2, 3))
    alone = told(history[:, :, 1:2]).weights(60)
    assert np.array_equal(told(history).weights(60)[1:2], alone)


def test_before_any_error_the_share_is_the_start() -> None:
    assert np.array_equal(RecentError((2, 3)).weights(7), np.full((2, 3), START))
    assert RecentError(1, start=0.8).weights(0)[0] == 0.8


def test_an_error_is_forgotten_after_the_horizon() -> None:
    state = RecentError(1)
    state.update(0, np.array([0.0]), np.array([1.0]))
    assert state.weights(1)[0] == 1.0
    assert state.weights(HORIZON - 1)[0] == 1.0
    assert state.weights(HORIZON)[0] == START


def test_the_better_method_gets_the_say_and_loses_it_when_the_level_drifts() -> None:
    rng = np.random.default_rng(0)
    small, large = 0.1 * rng.standard_normal((2, 40, 1)), 1.0 * rng.standard_normal((2, 40, 1))
    state = RecentError(1)
    for step in range(40):
        state.update(step, small[0, step], large[0, step])
    assert state.weights(40)[0] > 0.9
    for step in range(40, 80):
        state.update(step, large[1, step - 40], small[1, step - 40])
    assert state.weights(80)[0] < 0.1


def test_errors_of_opposite_sign_are_averaged_out() -> None:
    state = RecentError(1, caution=0.0)
    for step in range(30):
        sign = 1.0 if step % 2 else -1.0
        state.update(step, np.array([3.0 * sign]), np.array([-1.0 * sign]))
    assert state.weights(30)[0] == pytest.approx(0.25)  # 0.25 * 3 - 0.75 * 1 = 0


def test_an_answer_far_off_has_no_say_however_cautious() -> None:
    state = RecentError(1)
    for step in range(5):
        state.update(step, np.array([1e4]), np.array([-1.0]))
    assert state.weights(5)[0] * 1e4 < 1.0


def test_the_walk_costs_little_against_the_better_of_the_two_methods() -> None:
    rng = np.random.default_rng(1)
    steps, keys = 2000, 40
    sizes = np.exp(rng.uniform(-1, 1, (2, keys)))
    common = rng.standard_normal((steps, 1, keys))  # two answers to one question err partly alike
    history = sizes * (0.6 * common + 0.8 * rng.standard_normal((steps, 2, keys)))
    state, spent = RecentError(keys), np.zeros(keys)
    for step in range(steps):
        weight = state.weights(step)
        spent += np.square(weight * history[step, 0] + (1 - weight) * history[step, 1])
        state.update(step, *history[step])
    better = np.square(history).sum(axis=0).min(axis=0)
    assert (spent / better).max() < 1.10
    assert (spent / better).mean() < 1.0


@pytest.mark.parametrize(
    ("model", "baseline", "mixed"),
    [(2.0, np.nan, 2.0), (np.nan, 3.0, 3.0), (np.nan, np.nan, np.nan), (np.inf, 3.0, 3.0), (2.0, 3.0, 2.75)],
)
def test_where_one_answer_is_absent_the_other_stands(model: float, baseline: float, mixed: float) -> None:
    found = blend(np.array([model], np.float32), np.array([baseline], np.float32), np.array([0.25]))
    assert np.array_equal(found, [mixed], equal_nan=True)


def test_the_error_of_the_step_that_is_asked_for_cannot_be_used() -> None:
    state = told(np.ones((4, 2, 1)))
    with pytest.raises(ValueError, match="a step after 3, whose errors are known, found 3"):
        state.weights(3)
    with pytest.raises(ValueError, match="a step after 3, found 3"):
        state.update(3, np.ones(1), np.ones(1))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"memory": 0.0}, "memory"),
        ({"horizon": 7}, "even horizon"),
        ({"caution": -1.0}, "caution"),
        ({"start": 2.0}, "start"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        RecentError(1, **options)  # type: ignore[arg-type]


def test_errors_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(2,\), found \(3,\)"):
        RecentError(2).update(0, np.ones(3), np.ones(2))
