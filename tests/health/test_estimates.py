"""Leave-one-out residuals are those of a Gaussian: checked against linear regression, with and without holes."""

import numpy as np
import pytest

from glaim_stream.form import fit
from glaim_stream.health.estimates import BLOCK, Estimates, block_means, estimates_of
from glaim_stream.health.series import GridSeries

RANDOM = np.random.default_rng(0)
MIXED = RANDOM.normal(size=(4, 4))
COVARIANCE = MIXED @ MIXED.T + np.eye(4)
SCALE = np.sqrt(np.diagonal(COVARIANCE))
ESTIMATES = Estimates(SCALE, COVARIANCE / SCALE[:, None] / SCALE)
DRAWN = np.linalg.cholesky(COVARIANCE) @ RANDOM.normal(size=(4, 40))


def expected(sensor: int, others: list[int], column: int) -> float:
    weights = np.linalg.solve(COVARIANCE[np.ix_(others, others)], COVARIANCE[others, sensor])
    return float((DRAWN[sensor, column] - weights @ DRAWN[others, column]) / SCALE[sensor])


def test_a_residual_is_the_difference_from_the_mean_given_all_others() -> None:
    found = ESTIMATES.residuals(DRAWN)
    for sensor in range(4):
        others = [each for each in range(4) if each != sensor]
        assert found[sensor, 7] == pytest.approx(expected(sensor, others, 7))


def test_sensors_that_are_missing_or_left_out_estimate_no_other_one() -> None:
    missing = DRAWN.copy()
    missing[1, 7] = np.nan
    left_out = np.array([False, True, False, False])
    share = ESTIMATES.residuals(missing)[0, 7] / expected(0, [2, 3], 7)
    assert 0 < share <= 1  # the estimate is less certain, so its residual counts less
    assert np.isnan(ESTIMATES.residuals(missing)[1, 7])
    out = ESTIMATES.residuals(DRAWN, left_out)
    assert out[0, 7] == pytest.approx(ESTIMATES.residuals(missing)[0, 7])
    assert np.isfinite(out[1, 7])


def test_residuals_have_the_same_deviation_whichever_sensors_are_missing() -> None:
    drawn = np.linalg.cholesky(COVARIANCE) @ np.random.default_rng(1).normal(size=(4, 20_000))
    full = ESTIMATES.residuals(drawn)[0].std()
    drawn[2:] = np.nan
    assert ESTIMATES.residuals(drawn)[0].std() == pytest.approx(full, rel=0.03)


def test_a_limit_is_as_wide_as_the_widest_without_what_made_it_tight() -> None:
    correlation = np.array([[1.0, 0.99, 0.0], [0.99, 1.0, 0.0], [0.0, 0.0, 1.0]])
    estimates, deviation = Estimates(np.ones(3), correlation), np.array([[0.6], [0.5], [2.0]])
    own = np.sqrt(1 - 0.99**2)  # deviation of the twins' residuals; the third has one of 1
    limit = np.array([own, own, 4.0])
    full = estimates.scores(deviation, limit)
    np.testing.assert_allclose(full, estimates.residuals(deviation) / limit[:, None])
    alone = estimates.scores(deviation, limit, np.array([False, True, False]))
    assert alone[0, 0] == pytest.approx(0.6 / 4, rel=0.05)
    assert alone[2, 0] == full[2, 0]
    unjudged = estimates.scores(deviation, np.array([np.inf, own, 4.0]), np.array([False, True, False]))
    assert unjudged[0, 0] == 0


def test_the_closed_form_of_a_plant_explains_a_sensor_by_its_twin() -> None:
    random = np.random.default_rng(2)
    base = np.cumsum(random.normal(size=(1, 3000)), axis=1)
    values = np.concatenate([base, 3 * base + random.normal(0, 0.5, base.shape), random.normal(size=(1, 3000))])
    seen = np.ones((1, *values.shape), np.bool_)
    form = fit(values[None], seen, start_ms=0, step_ms=60_000, sensors=("a", "b", "c"), steps=24).form
    means, _ = block_means(GridSeries("", 0, 60_000, values, seen[0]))
    deviation = means - means.mean(axis=1, keepdims=True)
    residual = estimates_of(form).residuals(deviation)
    scaled = deviation / estimates_of(form).scale[:, None]
    assert residual[0].std() < 0.2 * scaled[0].std()
    assert residual[2].std() > 0.9 * scaled[2].std()


def test_blocks_begin_at_multiples_of_their_length_wherever_the_series_begins() -> None:
    values = np.arange(40.0)[None]
    whole, first = block_means(GridSeries("", 16, 60_000, values, np.ones((1, 40), np.bool_)))
    assert (first, whole.shape) == (0, (1, 40 // BLOCK))
    part, first = block_means(GridSeries("", 21, 60_000, values[:, 5:], np.ones((1, 35), np.bool_)))
    assert first == 3
    np.testing.assert_array_equal(part, whole[:, 1:])
