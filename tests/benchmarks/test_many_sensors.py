"""The study of many sensors: its low-rank form beside the dense one, its clusters and its hidden cells."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.alternatives import clusters, filled_by, form_of, method
from benchmarks.gaussian import simulated
from benchmarks.low_rank import Factors, LowRank
from benchmarks.many_sensors import CASES, hidden, scores, standardised
from glaim_stream.form.conditional import Conditional

SENSORS, STEPS, COUNT = 5, 7, 2


def positive(rng: np.random.Generator, *shape: int) -> np.ndarray:
    root = rng.normal(size=(*shape, shape[-1]))
    return root @ np.swapaxes(root, -1, -2) + 0.5 * np.eye(shape[-1])


def test_the_low_rank_form_equals_the_dense_one_of_the_same_covariance() -> None:
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(SENSORS, COUNT))
    factors, own = positive(rng, COUNT * STEPS), positive(rng, SENSORS, STEPS) + 100.0
    mixing = np.kron(loadings, np.eye(STEPS))
    dense = mixing @ factors @ mixing.T
    for sensor, block in enumerate(own):
        part = slice(sensor * STEPS, (sensor + 1) * STEPS)
        dense[part, part] += block
    values = rng.normal(size=(8, SENSORS * STEPS))
    observed = rng.random(values.shape) > 0.3
    observed[0, :STEPS], observed[1], observed[2] = False, True, False
    low_rank = LowRank(loadings, factors, own)
    mean, variance = low_rank.fill(values, observed)
    expected, spread = Conditional(dense).fill(values, observed)
    np.testing.assert_allclose(mean, expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(variance, spread, rtol=1e-8, atol=1e-8)
    newest = np.tile(np.arange(STEPS) >= STEPS - 2, SENSORS)
    some, _ = low_rank.fill(values, observed, newest, with_variance=False)
    np.testing.assert_allclose(some[:, newest], expected[:, newest], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_factors_of_series_that_follow_them_fill_better_than_each_sensor_alone(missing: float) -> None:
    series = simulated(12, 900)[0]
    rng = np.random.default_rng(1)
    windows = np.stack([series[:, end - 24 : end] for end in range(24, 900)])
    observed = rng.random(windows.shape) >= missing
    windows -= windows.mean(axis=2, keepdims=True)

    def error(count: int) -> float:
        flat, seen = windows[::50].reshape(-1, 12 * 24), (rng.random((18, 12 * 24)) > 0.2)
        found, _ = Factors(windows, observed, count).conditional(0.5, 1e-2).fill(flat, seen)
        return float(np.square(found - flat)[~seen].mean())

    assert error(3) < 0.7 * error(1)


def test_clusters_hold_each_sensor_once_and_keep_those_that_go_together() -> None:
    rng = np.random.default_rng(2)
    shared = rng.normal(size=(2, 400)).repeat(5, axis=0) + 0.1 * rng.normal(size=(10, 400))
    places = rng.permutation(10)
    found = clusters(shared[places], 6)
    assert sorted(np.concatenate(found).tolist()) == list(range(10))
    assert all(len(set((places[part] // 5).tolist())) == 1 for part in found)


def test_cases_hide_the_cells_that_they_name() -> None:
    observed = np.random.default_rng(3).random((20, 10, 96)) > 0.1
    holes = {case: hidden(case, observed) for case in CASES}
    assert all((observed | ~each).all() for each in holes.values())
    assert 0.1 < holes["single"].sum() / observed.sum() < 0.3
    assert (holes["silent"].any(axis=2).sum(axis=1) == 1).all()
    assert not holes["newest"][:, :, :-8].any()


def test_alternatives_are_fitted_and_scored() -> None:
    values = standardised(simulated(6, 800)[0])
    training, windows = values[:, :560], np.stack([values[:, 600 + at : 696 + at] for at in (0, 50, 100)])
    seen = np.ones(windows.shape, np.bool_)
    plain = method("plain", training)
    short = form_of(training, span=24, shrinkage=1.0)
    assert (plain.span, short.span) == (96, 24)
    line = scores(method("interpolation", training).fill, windows, seen)
    for fill in (plain.fill, filled_by(short), method("factors-3", training).fill):
        assert scores(fill, windows, seen)["blocks"]["mse"] < 0.5 * line["blocks"]["mse"]
