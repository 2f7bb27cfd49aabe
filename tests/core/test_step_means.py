"""The mean of a step's readings: of numbers on the line, of directions on the circle."""

import numpy as np
import pytest
from numpy.typing import NDArray

from glaim_stream.core.step_means import addends, mean_of_each, means


def mean_of(readings: list[float], *, direction: bool | None) -> float:
    """The mean of one step; None: of a model without directions."""
    values = np.array(readings)
    turning = None if direction is None else np.full(len(values), direction)
    sums: NDArray[np.generic] = addends(values, turning).sum(keepdims=True)
    signed = (values < 0.0).any(keepdims=True)
    return float(means(sums, np.array([len(values)]), values[-1:], signed, None if turning is None else turning[:1])[0])


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([350.0, 10.0], 0.0),
        ([359.0, 0.0, 1.0], 0.0),
        ([360.0, 360.0], 0.0),
        ([340.5, 350.5], 345.5),
        ([90.0, 90.0, 90.0], 90.0),
        ([10.0, 20.0, 90.0], np.rad2deg(np.angle(np.exp(1j * np.deg2rad([10.0, 20.0, 90.0])).sum()))),
        ([360.0], 360.0),
        ([170.0, -160.0], -175.0),
        ([-10.0, 20.0], 5.0),
        ([10.0, -30.0], -10.0),
        ([-180.0], -180.0),
    ],
)
def test_directions_have_the_direction_of_the_sum_of_their_vectors(readings: list[float], expected: float) -> None:
    assert mean_of(readings, direction=True) == pytest.approx(expected, abs=1e-9)


def test_a_mean_of_round_directions_is_round() -> None:
    assert mean_of([90.0, 90.0, 90.0], direction=True) == 90.0
    assert mean_of([355.0, 5.0, 0.0], direction=True) == 0.0


def test_the_mean_of_each_step_is_on_the_circle_of_its_readings() -> None:
    readings, step = np.array([170.0, -160.0, 300.0, 350.0, 10.0]), np.array([0, 0, 1, 1, 2])
    found = mean_of_each(readings, step, 3, np.ones(5, np.bool_))
    assert found.tolist() == [-175.0, -175.0, 325.0, 325.0, 10.0]


def test_directions_across_each_other_still_have_a_number() -> None:
    assert 0.0 <= mean_of([0.0, 180.0], direction=True) < 360.0


@pytest.mark.parametrize("readings", [[350.0, 10.0], [1e308, 1.5e308, 1.7e308], [5e-324], [-0.0], [0.1, 0.2, 0.3]])
def test_numbers_beside_directions_have_the_mean_that_they_have_alone(readings: list[float]) -> None:
    alone, beside = mean_of(readings, direction=None), mean_of(readings, direction=False)
    assert np.float64(alone).tobytes() == np.float64(beside).tobytes()
    assert alone == pytest.approx(float(np.mean(np.array(readings) / 4) * 4))
