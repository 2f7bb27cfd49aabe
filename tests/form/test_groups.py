"""Groups at other levels and scales, and newcomers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glaim_stream.form.candidates import BY_WINDOW
from glaim_stream.form.fit import Fitted
from glaim_stream.form.transform import LEAST_CELLS
from tests.form.samples import STEPS, fitted, series, windows

SCALES = np.array([1.0, 1e4, 1e-6, 5.0])
LEVELS = np.array([10.0, 10_000.0, 1e-6, -3.0])


@pytest.fixture(scope="module")
def unlike() -> Fitted:
    values = series(700, groups=4)
    values = values - values.mean(axis=2, keepdims=True)
    factors = SCALES[:, None] ** np.array([1.0, 0.5, 1.5])  # sensors of a group differ too
    return fitted(values * factors[:, :, None] + LEVELS[:, None, None])


@pytest.fixture(scope="module")
def alike() -> Fitted:
    return fitted(series(700, groups=3))


def test_groups_of_other_scales_have_windows_scaled_by_themselves(unlike: Fitted) -> None:
    assert unlike.report.weights[BY_WINDOW] > 0.5


@pytest.mark.parametrize("group", range(4))
def test_every_group_is_filled_better_than_by_its_last_value(unlike: Fitted, group: int) -> None:
    values = series(900, seed=9)
    values = (values - values.mean(axis=2, keepdims=True)) * (SCALES[group] ** np.array([1.0, 0.5, 1.5]))[:, None]
    cut, end_ms = windows(values + LEVELS[group])
    observed = np.ones(cut.shape, np.bool_)
    observed[:, :, -2:] = False
    observed[:, 0, -2:] = True
    error = (unlike.form.fill(cut, observed, end_ms).mean - cut)[:, 1, -1]
    assert np.mean(np.abs(error)) < np.mean(np.abs(cut[:, 1, -3] - cut[:, 1, -1]))


@settings(max_examples=40, deadline=None)
@given(
    factors=st.lists(st.floats(-6, 6), min_size=3, max_size=3),
    shifts=st.lists(st.floats(-1000, 1000), min_size=3, max_size=3),
    seed=st.integers(0, 1000),
)
def test_shifting_and_scaling_a_windows_sensors_shifts_and_scales_its_answers(
    unlike: Fitted, factors: list[float], shifts: list[float], seed: int
) -> None:
    form = unlike.form
    assert form.variants[0].name == BY_WINDOW
    cut, _ = windows(series(300, seed=2), 5)
    cut = cut - cut.mean(axis=(0, 2), keepdims=True)
    observed = np.random.default_rng(seed).random(cut.shape) > 0.3
    observed[:, :, :LEAST_CELLS] = True  # a sensor with fewer follows the others of its window
    factor = 10.0 ** np.array(factors)[:, None]
    shift = np.array(shifts)[:, None] * factor
    own = form.variants[0]
    plain, other = own.fill(cut, observed, None), own.fill(cut * factor + shift, observed, None)
    unit = factor * cut.std(axis=(0, 2))[:, None]
    assert (np.abs(other[0] - (plain[0] * factor + shift)) < 1e-6 * unit).all()
    assert (np.abs(other[1] - plain[1] * factor) < 1e-6 * unit).all()


@settings(max_examples=40, deadline=None)
@given(shift=st.floats(-1e5, 1e5), seed=st.integers(0, 1000))
def test_shifting_a_window_shifts_its_answers(alike: Fitted, shift: float, seed: int) -> None:
    cut, _ = windows(series(300, seed=2), 5)
    observed = np.random.default_rng(seed).random(cut.shape) > 0.3
    plain = alike.form.variants[0]
    assert not plain.transform.logarithm.any()
    found, moved = plain.fill(cut, observed, None), plain.fill(cut + shift, observed, None)
    np.testing.assert_allclose(moved[0], found[0] + shift, atol=1e-6)
    np.testing.assert_allclose(moved[1], found[1], atol=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 300.0])
@pytest.mark.parametrize("level", [-4000.0, 0.0, 10_000.0])
def test_a_newcomer_is_filled_no_worse_than_by_its_last_value(alike: Fitted, scale: float, level: float) -> None:
    values = series(900, seed=11)
    cut, end_ms = windows((values - values.mean(axis=2, keepdims=True)) * scale + level)
    observed = np.ones(cut.shape, np.bool_)
    observed[:, 0, 10:16] = observed[:, 2, -2:] = False
    found = alike.form.fill(cut, observed, end_ms)
    error = np.abs(found.mean - cut)
    assert error[:, 0, 10:16].mean() < np.abs(cut[:, 0, 9:10] - cut[:, 0, 10:16]).mean()
    assert error[:, 2, -2:].mean() < 1.02 * np.abs(cut[:, 2, -3:-2] - cut[:, 2, -2:]).mean()
    assert (found.deviation[~observed] < 30 * scale).all()


def test_a_silent_sensor_of_a_stranger_is_declined(alike: Fitted) -> None:
    cut, end_ms = windows(series(900, seed=11) + 10_000.0)
    observed = np.ones(cut.shape, np.bool_)
    observed[:, 1] = False
    found = alike.form.fill(cut, observed, end_ms)
    assert np.isnan(found.mean[:, 1]).all()
    assert np.isnan(found.deviation[:, 1]).all()


def test_a_stuck_sensor_does_not_scale_the_others(alike: Fitted) -> None:
    cut, _ = windows(series(300, seed=5), 20)
    cut[:, 0] = cut[:, 0].mean(axis=1, keepdims=True) + 1e-4 * np.sin(np.arange(STEPS))
    observed = np.ones(cut.shape, np.bool_)
    observed[:, 1, 3:] = False  # too few readings for a scale of its own
    _, scales = alike.form.variants[0].transform.forward(cut, observed, None)
    trained = alike.form.variants[0].transform.scale
    assert (scales[:, 0] < 1e-2 * trained[0]).all()
    assert (scales[:, 1] > 0.4 * trained[1]).all()
    assert (scales[:, 2] == trained[2]).all()


def test_two_equal_cells_are_no_scale(unlike: Fitted) -> None:
    values = np.zeros((1, 3, STEPS))
    values[:, :, 4:6] = 3.0
    observed = np.zeros(values.shape, np.bool_)
    observed[:, :, 4:6] = True
    found = unlike.form.fill(values, observed, np.zeros(1, np.int64))
    assert np.isfinite(found.mean).all()
    assert np.abs(found.mean - 3.0).max() < 1e-6
    assert np.isfinite(found.deviation).all()
