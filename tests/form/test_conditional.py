"""Conditional means and variances beside a dense reference, one window at a time."""

import numpy as np
import pytest

from glaim_stream.form import conditional
from glaim_stream.form.conditional import Conditional


def covariance(cells: int, seed: int, *, smallest: float = 1e-3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    root, _ = np.linalg.qr(rng.normal(size=(cells, cells)))
    return (root * np.geomspace(smallest, 1.0, cells)) @ root.T


def reference(matrix: np.ndarray, values: np.ndarray, observed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, variance = np.where(observed, values, 0.0), np.zeros(len(values))
    hole, known = np.flatnonzero(~observed), np.flatnonzero(observed)
    weights = np.linalg.lstsq(matrix[np.ix_(known, known)], matrix[np.ix_(known, hole)], rcond=None)[0]
    mean[hole] = values[known] @ weights
    variance[hole] = np.diagonal(matrix)[hole] - np.einsum("oh,oh->h", weights, matrix[np.ix_(known, hole)])
    return mean, variance


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.45, 0.5, 0.7, 0.98, 1.0])
@pytest.mark.parametrize(("cells", "count"), [(60, 40), (620, 4)])
def test_every_share_of_holes_agrees_with_the_dense_reference(cells: int, count: int, share: float) -> None:
    matrix = covariance(cells, 3)
    rng = np.random.default_rng(4)
    values = rng.normal(size=(count, cells))
    observed = rng.random((count, cells)) >= share
    mean, variance = Conditional(matrix).fill(np.where(observed, values, np.nan), observed)
    for row in range(count):
        expected = reference(matrix, values[row], observed[row])
        np.testing.assert_allclose(mean[row], expected[0], atol=1e-9)
        np.testing.assert_allclose(variance[row], expected[1], atol=1e-9)


@pytest.mark.parametrize("share", [0.02, 0.45, 0.55, 0.7, 0.98, 1.0])
@pytest.mark.parametrize("cells", [60, 620])
def test_means_alone_are_those_with_variances(cells: int, share: float) -> None:
    matrix, rng = covariance(cells, 17), np.random.default_rng(18)
    values, observed = rng.normal(size=(6, cells)), rng.random((6, cells)) >= share
    observed[:3] &= rng.random((3, cells)) >= 0.3  # some windows by each form
    whole, _ = Conditional(matrix).fill(values, observed)
    means, variances = Conditional(matrix).fill(values, observed, with_variance=False)
    np.testing.assert_allclose(means, whole, atol=1e-9)
    assert not variances[(~observed).any(axis=1) & observed.any(axis=1)].any()


@pytest.mark.parametrize("newest", [False, True])
def test_means_alone_have_the_same_bits_in_any_company(newest: bool) -> None:
    matrix, rng = covariance(530, 5), np.random.default_rng(6)
    values, observed = rng.normal(size=(60, 530)), rng.random((60, 530)) > np.linspace(0, 1, 60)[:, None]
    wanted = np.arange(530) % 12 == 11 if newest else None
    form = Conditional(matrix)
    together, _ = form.fill(values, observed, wanted, with_variance=False)
    for row in range(60):
        alone, _ = form.fill(values[[row]], observed[[row]], wanted, with_variance=False)
        np.testing.assert_array_equal(alone[0], together[row])


@pytest.mark.parametrize("columns", [3, 40])
def test_a_window_without_a_factor_of_cholesky_is_solved_and_costs_no_other_its_bits(columns: int) -> None:
    rng = np.random.default_rng(19)
    system = np.stack([covariance(20, seed) for seed in range(4)])
    system[2] = -system[2]
    across, known = rng.normal(size=(4, 20, columns)), rng.normal(size=(4, 20))
    filled, explained = conditional._explained(system, across, known)
    for row in range(4):
        weights = np.linalg.solve(system[row], across[row])
        np.testing.assert_allclose(filled[row], known[row] @ weights, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(explained[row], (weights * across[row]).sum(axis=0), rtol=1e-6, atol=1e-6)
    others = [0, 1, 3]
    calm = conditional._explained(system[others], across[others], known[others])
    np.testing.assert_array_equal(filled[others], calm[0])
    np.testing.assert_array_equal(explained[others], calm[1])


@pytest.mark.parametrize("share", [0.005, 0.02, 0.1, 0.3, 0.45, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("every", [3, 24])
@pytest.mark.parametrize("cells", [60, 620])
def test_wanted_cells_alone_agree_with_the_dense_reference(cells: int, every: int, share: float) -> None:
    matrix = covariance(cells, 13)
    rng = np.random.default_rng(14)
    values = rng.normal(size=(6, cells))
    observed = rng.random((6, cells)) >= share
    wanted = np.arange(cells) % every == every - 1
    mean, variance = Conditional(matrix).fill(np.where(observed, values, np.nan), observed, wanted)
    for row in range(6):
        expected = reference(matrix, values[row], observed[row])
        np.testing.assert_allclose(mean[row, wanted], expected[0][wanted], atol=1e-9)
        np.testing.assert_allclose(variance[row, wanted], expected[1][wanted], atol=1e-9)


@pytest.mark.parametrize("cells", [60, 520])
def test_a_window_whose_squares_overflow_is_filled_and_costs_no_other_its_bits(cells: int) -> None:
    matrix, rng = covariance(cells, 15), np.random.default_rng(16)
    values, observed = rng.normal(size=(5, cells)), rng.random((5, cells)) >= 0.2
    observed[:] = observed[0]  # all are solved together
    wanted = np.arange(cells) >= cells - 8
    observed[:, -2:] = False
    form = Conditional(matrix)
    calm = form.fill(values, observed, wanted)
    huge = values.copy()
    huge[2] *= 1e160
    mean, variance = form.fill(huge, observed, wanted)
    others = [0, 1, 3, 4]
    np.testing.assert_array_equal(mean[others], calm[0][others])
    np.testing.assert_array_equal(variance[others], calm[1][others])
    np.testing.assert_allclose(mean[2, wanted], 1e160 * calm[0][2, wanted], rtol=1e-9)
    np.testing.assert_allclose(variance[2, wanted], calm[1][2, wanted], rtol=1e-9)


@pytest.mark.parametrize("cells", [48, 530])
@pytest.mark.parametrize("newest", [False, True])
def test_a_window_has_the_same_bits_in_any_company(cells: int, newest: bool) -> None:
    matrix, rng = covariance(cells, 5), np.random.default_rng(6)
    values, observed = rng.normal(size=(160, cells)), rng.random((160, cells)) > np.linspace(0, 1, 160)[:, None]
    wanted = np.arange(cells) % 12 == 11 if newest else None
    form = Conditional(matrix)
    together = form.fill(values, observed, wanted)
    alone_or_few = [[3], [20], [40], [75], [110], [159], [10, 11, 12]]
    for rows in (*alone_or_few, list(range(9, 80, 5)), list(range(140, 2, -1))):
        for ours, alone in zip(together, form.fill(values[rows], observed[rows], wanted), strict=True):
            np.testing.assert_array_equal(ours[rows], alone)


def test_a_covariance_with_a_condition_of_a_trillion_keeps_six_digits() -> None:
    matrix, rng = covariance(96, 7, smallest=1e-12), np.random.default_rng(8)
    values = rng.multivariate_normal(np.zeros(96), matrix, size=30)
    observed = rng.random((30, 96)) > 0.1
    mean, variance = Conditional(matrix).fill(values, observed)
    assert (variance >= 0).all()
    deviation = np.sqrt(np.diagonal(matrix))
    for row in range(30):
        expected = reference(matrix, values[row], observed[row])
        assert (np.abs(mean[row] - expected[0]) < 1e-6 * deviation).all()


def test_a_covariance_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="positive definite"):
        Conditional(np.array([[1.0, 2.0], [2.0, 1.0]]))
