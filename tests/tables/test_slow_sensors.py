"""Sensors that report less often than the table has rows: bands between readings that no hidden reading was near."""

import numpy as np
import pytest

from glaim_stream.tables.fill import fill_groups
from glaim_stream.tables.fit import fit
from glaim_stream.tables.groups import Group, Result

STEPS = 4000


def resting(rest: float, rng: np.random.Generator) -> np.ndarray:
    """A series [N] of deviation 1 that keeps a share of each value in the next."""
    out = rng.normal(size=STEPS)
    for step in range(1, STEPS):
        out[step] = rest * out[step - 1] + np.sqrt(1.0 - rest**2) * out[step]
    return out


def every(steps: int, truth: np.ndarray) -> np.ndarray:
    """The readings [2, N] if the first sensor had one every so many steps."""
    values = truth.copy()
    values[0, np.arange(STEPS) % steps != 0] = np.nan
    return values


def group(values: np.ndarray) -> Group:
    return Group("g", 60_000 * np.arange(STEPS), values)


def held(result: Result, values: np.ndarray, truth: np.ndarray) -> float:
    """Share of the true values of the first sensor's holes in their bands."""
    found, hole = result.groups[0], np.isnan(values[0])
    return float(((found.lower[0] <= truth[0]) & (truth[0] <= found.upper[0]))[hole].mean())


def related(noise: float) -> np.ndarray:
    """Two sensors [2, N] of one wave, the first of which is noisy."""
    rng = np.random.default_rng(7)
    wave = resting(0.97, rng)
    return np.stack([20 + 3 * wave + noise * rng.normal(size=STEPS), 50 + 5 * wave + 0.3 * rng.normal(size=STEPS)])


@pytest.mark.parametrize("steps", [2, 6, 12])
@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_the_forms_band_holds_the_truth_between_readings_that_come_every_few_steps(steps, noise):
    truth = related(noise)
    values = every(steps, truth)
    result = fill_groups([group(values)], sensors=["a", "b"])
    assert result.chosen["a"] == "gaussian"
    assert 0.75 < held(result, values, truth) < 0.97


@pytest.mark.parametrize("noise", [0.0, 0.5, 3.0])
def test_interpolations_band_holds_the_truth_between_readings_that_come_every_few_steps(noise):
    rng = np.random.default_rng(1)
    own = 3 * resting(0.99, rng) + noise * rng.normal(size=STEPS)
    truth = np.stack([20 + own, 50 + resting(0.95, rng)])
    values = every(6, truth)
    result = fill_groups([group(values)], sensors=["a", "b"])
    assert result.chosen["a"] == "interpolation"
    assert 0.85 < held(result, values, truth) < 0.98


def test_hidden_readings_are_as_far_from_others_as_the_sensor_reports_and_next_to_them_where_holes_are_at_random():
    truth = related(0.3)
    slow = fit([group(every(6, truth))], sensors=["a", "b"])
    assert slow.nearest.tolist() == [6.0, 1.0]
    holes = np.where(np.random.default_rng(2).random(truth.shape) < 0.1, np.nan, truth)
    assert fit([group(holes)], sensors=["a", "b"]).nearest.tolist() == [1.0, 1.0]
