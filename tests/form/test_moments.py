"""Covariances from windows with holes, beside what made the windows."""

import numpy as np
import pytest

from glaim_stream.form.conditional import Conditional
from glaim_stream.form.moments import (
    LEVEL_VARIANCE,
    Moments,
    at_equal_deviations,
    with_free_levels,
    without_level,
)

C, T = 2, 12


def windows(count: int, seed: int, missing: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Two sensors that follow one another by a step, around levels of their own."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(count, T + 20))
    slow = np.zeros_like(noise)
    for step in range(1, noise.shape[1]):
        slow[:, step] = 0.8 * slow[:, step - 1] + noise[:, step]
    values = np.stack([slow[:, -T - 1 : -1], slow[:, -T:]], axis=1) + 0.3 * rng.normal(size=(count, C, T))
    values += rng.normal(size=(count, C, 1)) * 30
    return values, rng.random(values.shape) >= missing


def fitted(values: np.ndarray, observed: np.ndarray, **options: float) -> np.ndarray:
    moments = Moments(C, T)
    moments.add(values, observed)
    constants = {"shrinkage": 0.5, "ridge": 1e-3} | options
    levels = moments.level_variance(shrinkage=constants["shrinkage"])
    return with_free_levels(moments.covariance(**constants), levels)


def test_a_level_is_taken_off_over_the_observed_cells() -> None:
    values, observed = np.array([[[1.0, 3.0, 9.0]]]), np.array([[[True, True, False]]])
    assert without_level(values, observed).tolist() == [[[-1.0, 1.0, 0.0]]]
    assert without_level(values, np.zeros_like(observed)).tolist() == [[[0.0, 0.0, 0.0]]]


def test_a_hole_is_filled_from_the_sensor_that_leads() -> None:
    values, observed = windows(3000, 2, 0.3)
    form = Conditional(fitted(values, observed))
    fresh, _ = windows(500, 3)
    seen = np.ones(fresh.shape, np.bool_)
    seen[:, 0, 5:8] = False  # the other sensor has these values one step later
    mean, variance = form.fill(fresh.reshape(500, -1), seen.reshape(500, -1))
    hole = ~seen.reshape(500, -1)
    error = (mean - fresh.reshape(500, -1))[hole]
    assert np.sqrt(np.mean(error**2)) < 0.5
    assert 0.4 < np.mean(error**2) / variance[hole].mean() < 1.2


def test_the_answer_follows_the_level_of_a_window() -> None:
    form = Conditional(fitted(*windows(500, 4)))
    values, observed = windows(20, 5, 0.2)
    flat = observed.reshape(20, -1)
    near, _ = form.fill(values.reshape(20, -1), flat)
    far, _ = form.fill(values.reshape(20, -1) + 100.0, flat)
    np.testing.assert_allclose(far - near, 100.0, rtol=0.01)


def test_a_silent_sensor_has_a_wide_band_that_is_finite() -> None:
    matrix = fitted(*windows(500, 4))
    values, observed = windows(1, 6)
    observed[:, 1] = False
    mean, variance = Conditional(matrix).fill(values.reshape(1, -1), observed.reshape(1, -1))
    assert np.isfinite(mean).all()
    assert (variance.reshape(C, T)[1] > LEVEL_VARIANCE / 10).all()


@pytest.mark.parametrize(
    "change",
    [
        lambda values: np.concatenate([values[:, :1], values[:, :1]], axis=1),
        lambda values: values * [[1.0], [0.0]],
        lambda values: values * [[1.0], [1e-9]],
    ],
    ids=["a copy", "a constant", "a tiny one"],
)
def test_degenerate_sensors_leave_a_positive_covariance(change: object) -> None:
    values, observed = windows(300, 7, 0.4)
    matrix = fitted(change(values), observed, ridge=1e-6)  # type: ignore[operator]
    mean, variance = Conditional(matrix).fill(values.reshape(300, -1), observed.reshape(300, -1))
    assert np.isfinite(mean).all()
    assert (variance >= 0).all()


def test_without_windows_there_is_no_covariance() -> None:
    with pytest.raises(ValueError, match="expected windows"):
        Moments(C, T).covariance(shrinkage=0.5, ridge=0.1)


def test_windows_at_equal_deviations_weigh_the_same_however_large_they_are() -> None:
    values, observed = windows(40, seed=4, missing=0.2)
    factors = np.random.default_rng(5).uniform(1.0, 100.0, size=(40, 1, 1))
    even = at_equal_deviations(values, observed)
    np.testing.assert_allclose(at_equal_deviations(values * factors + 7.0, observed), even, atol=1e-9)
    square = np.square(even).sum(axis=(1, 2)) / observed.sum(axis=(1, 2))
    np.testing.assert_allclose(square, 1.0)
    assert not even[~observed].any()


def test_a_window_that_hardly_varies_is_not_blown_up() -> None:
    values, observed = windows(3, seed=6)
    calm = at_equal_deviations(without_level(values, observed) * 1e-6, observed)
    assert np.abs(calm).max() < 1e-4
    assert not at_equal_deviations(np.full((2, C, T), 3.0), np.zeros((2, C, T), np.bool_)).any()


def test_a_distance_reduces_what_sensors_share_and_leaves_each_ones_own_past() -> None:
    values, observed = windows(300, 4, missing=0.1)
    moments = Moments(C, T)
    moments.add(values, observed)
    near, apart = (moments.covariance(shrinkage=0.5, ridge=1e-3, distance=share) for share in (0.0, 0.3))
    np.testing.assert_allclose(apart[:T, T:], 0.7 * near[:T, T:], rtol=1e-6)
    np.testing.assert_array_equal(apart[:T, :T], near[:T, :T])
    assert np.linalg.eigvalsh(apart).min() > 0


def test_a_constant_sensor_shares_nothing_where_negative_eigenvalues_are_taken_out() -> None:
    rng = np.random.default_rng(9)
    values = np.cumsum(rng.normal(size=(30, 4, 12)), axis=2)
    values[:, 2] = 5.0
    moments = Moments(4, 12)
    moments.add(values, rng.random(values.shape) < 0.5)
    found = moments.covariance(shrinkage=0.1, ridge=1e-4).reshape(4, 12, 4, 12)
    assert np.linalg.eigvalsh(found.reshape(48, 48)).min() < 2e-4 * np.diagonal(found.reshape(48, 48)).mean(), "clipped"
    for other in (0, 1, 3):
        assert not found[2, :, other].any()
        assert not found[other, :, 2].any()


def test_a_sensor_that_was_never_seen_with_the_others_has_no_negative_eigenvalues_either() -> None:
    rng = np.random.default_rng(9)
    values = np.cumsum(rng.normal(size=(30, 3, 12)), axis=2)
    observed = rng.random(values.shape) < 0.5
    observed[:15, 2] = observed[15:, :2] = False
    moments = Moments(3, 12)
    moments.add(values, observed)
    found = moments.covariance(shrinkage=0.1, ridge=1e-4)
    assert np.linalg.eigvalsh(found).min() > 0
    assert not found.reshape(3, 12, 3, 12)[2, :, :2].any()
