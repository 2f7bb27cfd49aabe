"""Data that grows in proportion, and values for which its logarithms do not hold."""

from __future__ import annotations

import numpy as np
import pytest

from glaim_stream.imputers.gaussian.candidates import BOTH, LOGARITHM, PLAIN
from glaim_stream.imputers.gaussian.fit import Fitted
from tests.imputers.gaussian.samples import STEPS, fitted, series, windows


def growing(rows: int = 1500, seed: int = 1) -> np.ndarray:
    logs = series(rows, seed=seed)
    logs = logs - logs.mean(axis=2, keepdims=True)
    logs = logs / np.abs(logs).max(axis=2, keepdims=True)
    return np.exp((logs + 1.0) / 2.0 * np.log(100.0))  # 1 to 100


@pytest.fixture(scope="module")
def fit_of_growth() -> Fitted:
    return fitted(growing())


def test_growing_data_is_filled_by_logarithms(fit_of_growth: Fitted) -> None:
    weights, errors = fit_of_growth.report.weights, fit_of_growth.report.errors
    assert sum(weight for name, weight in weights.items() if name in (LOGARITHM, BOTH)) > 0.3
    assert errors[LOGARITHM]["blocks"] < errors[PLAIN]["blocks"]


@pytest.mark.parametrize("strange", [0.0, -3.0, 5_000.0])
def test_a_window_with_a_value_beyond_the_training_goes_without_the_logarithm(
    fit_of_growth: Fitted, strange: float
) -> None:
    form = fit_of_growth.form
    cut, end_ms = windows(growing(seed=2), 20)
    cut[::2, 1, 4] = strange
    observed = np.ones(cut.shape, np.bool_)
    observed[:, :, -3:] = False
    found = form.fill(cut, observed, end_ms)
    assert found.without_logarithm.tolist() == [True, False] * 10
    assert np.isfinite(found.mean).all()
    plain = next(variant for variant in form.variants if not variant.transform.logarithm.any())
    mean, deviation = plain.fill(cut, observed, None)
    most = np.where(observed, cut, -np.inf).max(axis=2, keepdims=True)
    assert (found.mean <= np.maximum(mean + 4.0 * deviation, most) + 1e-9)[~observed].all()


def test_steep_growth_at_the_edge_stays_within_the_plain_band(fit_of_growth: Fitted) -> None:
    cut = np.broadcast_to(np.geomspace(1.0, 900.0, STEPS), (1, 3, STEPS)).copy()
    observed = np.ones(cut.shape, np.bool_)
    observed[:, :, -8:] = False
    found = fit_of_growth.form.fill(cut, observed, np.zeros(1, np.int64))
    seen = cut[observed]
    assert found.mean.max() < seen.max() + (seen.max() - seen.min()) + 100.0
    assert np.isfinite(found.deviation).all()


def test_an_answer_by_logarithms_is_the_median(fit_of_growth: Fitted) -> None:
    """The median is too high as often as too low; the mean of a lognormal is larger."""
    own = next(variant for variant in fit_of_growth.form.variants if variant.transform.logarithm.any())
    cut, _ = windows(growing(9000, seed=3), 400)
    observed = np.ones(cut.shape, np.bool_)
    observed[:, :, -6:] = False
    mean, _ = own.fill(cut, observed, None)
    assert 0.4 < np.mean(cut[~observed] > mean[~observed]) < 0.6


def test_sensors_with_a_value_that_is_not_positive_keep_their_values() -> None:
    values = growing()
    values[0, 2, 700] = 0.0
    found = fitted(values)
    chosen = [variant.transform.logarithm for variant in found.form.variants if variant.transform.logarithm.any()]
    assert all(not logarithm[2] for logarithm in chosen)
