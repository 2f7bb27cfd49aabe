"""The closed form is the optimum of the masked loss, and sees nothing of what is hidden."""

from __future__ import annotations

import numpy as np
import pytest

from training.benchmark.dlinear import AffineMap, Doubles, data_moments, gap_moments, optimum
from training.data.masks import Bools, block_cells
from training.data.series import Floats
from training.data.windows import Batch, hide

STEPS = 12


def samples(windows: int = 50, draws: int = 40) -> tuple[Floats, Bools]:
    """Smooth windows with an offset, [N, T], and rows of blocks to hide in them, [M, T]."""
    rng = np.random.default_rng(0)
    phase = rng.uniform(0, 2 * np.pi, (windows, 1))
    values = np.sin(np.arange(STEPS) / 2 + phase) + 0.5 + 0.1 * rng.standard_normal((windows, STEPS))
    return values.astype(np.float32), block_cells(rng, np.ones((draws, STEPS), np.bool_), 0.3, (2, 3))


def crossed(values: Floats, hidden: Bools) -> Batch:
    """Every window under every row of gaps, as a model would meet them: [N * M, 1, T]."""
    return hide(np.repeat(values, len(hidden), axis=0)[:, None], np.tile(hidden, (len(values), 1))[:, None])


def fitted(values: Floats, hidden: Bools) -> AffineMap:
    return optimum(data_moments(values), gap_moments(hidden))


def design(batch: Batch) -> Doubles:
    seen = batch.values[:, 0].astype(np.float64)
    return np.concatenate([seen, np.ones((len(seen), 1))], axis=1)


def test_the_map_is_that_of_an_explicit_least_squares_over_every_window_and_gap() -> None:
    values, hidden = samples()
    batch = crossed(values, hidden)
    found = fitted(values, hidden)
    filled = found.fill(batch.values, batch.observed)
    for step in range(STEPS):
        rows = batch.hidden[:, 0, step]
        regressors = design(batch)[rows]
        weights, *_ = np.linalg.lstsq(regressors, batch.truth[rows, 0, step].astype(np.float64), rcond=None)
        assert found.weights[step] == pytest.approx(weights, abs=1e-5)
        assert filled[rows, 0, step] == pytest.approx(regressors @ weights, abs=1e-5)


def test_the_gradient_of_the_masked_loss_is_zero_at_the_map_and_not_beside_it() -> None:
    values, hidden = samples()
    batch = crossed(values, hidden)
    found = fitted(values, hidden)

    def gradient(weights: Doubles) -> float:
        error = np.where(batch.hidden[:, 0], design(batch) @ weights.T - batch.truth[:, 0], 0.0)
        return float(np.abs(error.T @ design(batch)).max() / batch.hidden.sum())

    assert gradient(found.weights) < 1e-8
    assert gradient(found.weights + 0.01) > 1e-4


def test_a_moving_average_with_two_maps_reaches_nothing_that_one_map_does_not() -> None:
    rng = np.random.default_rng(1)
    # The moving average as DLinear takes it, the ends repeated: row t averages steps t - 2 .. t + 2.
    reach = np.clip(np.arange(-2, 3) + np.arange(STEPS)[:, None], 0, STEPS - 1)
    average = np.zeros((STEPS, STEPS))
    np.add.at(average, (np.arange(STEPS)[:, None], reach), 1 / 5)
    trend, rest = rng.standard_normal((2, STEPS, STEPS))
    window = rng.standard_normal(STEPS)
    smooth = np.convolve(np.pad(window, 2, mode="edge"), np.full(5, 1 / 5), mode="valid")
    two_maps = trend @ smooth + rest @ (window - smooth)
    assert (trend @ average + rest @ (np.eye(STEPS) - average)) @ window == pytest.approx(two_maps)


def test_a_hidden_value_never_enters_its_own_estimate_nor_any_other() -> None:
    values, hidden = samples()
    found = fitted(values, hidden)
    assert np.abs(np.diagonal(found.weights)).max() == 0  # a step has no weight on itself
    for gone in hidden[:5]:
        cells = np.broadcast_to(gone, values.shape)[:, None]
        other = np.where(cells, values[:, None] + 100, values[:, None]).astype(np.float32)
        assert np.array_equal(found.fill(values[:, None], ~cells), found.fill(other, ~cells))


def test_counts_of_gaps_are_those_of_a_loop() -> None:
    _, hidden = samples(draws=15)
    counts = gap_moments(hidden)
    for step, i, j in ((0, 3, 7), (5, 5, 2), (4, 1, 1)):
        assert counts[step, i, j] == sum(row[step] and not row[i] and not row[j] for row in hidden)
    assert np.array_equal(counts[:, -1, -1], hidden.sum(axis=0))


def test_a_step_that_is_never_hidden_is_filled_with_the_training_mean() -> None:
    values, hidden = samples()
    hidden[:, 4] = False
    found = fitted(values, hidden)
    assert (found.weights[4] == 0).all()
    assert np.abs(found.weights[5]).max() > 0.1
