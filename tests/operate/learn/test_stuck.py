"""Stuck stretches are found, and the habits of rain, valves and panels are not taken for them."""

import numpy as np
import pytest

from glaim_stream.operate.learn.collect import stuck_cells

STEPS = 600
RANDOM = np.random.default_rng(4)
NOISE = RANDOM.normal(size=STEPS)


def found(values: np.ndarray, observed: np.ndarray | None = None) -> np.ndarray:
    seen = np.ones(len(values), np.bool_) if observed is None else observed
    return np.flatnonzero(stuck_cells(values[None, None], seen[None, None])[0, 0])


def test_the_hour_in_which_a_sensor_was_stuck_is_left_out_after_its_first_reading() -> None:
    values = NOISE.copy()
    values[100:160] = values[100]
    np.testing.assert_array_equal(found(values), np.arange(101, 160))


def test_holes_do_not_hide_a_stuck_sensor_and_are_not_counted() -> None:
    values, observed = NOISE.copy(), np.ones(STEPS, np.bool_)
    values[100:160] = values[100]
    observed[110:130:2], values[110:130:2] = False, 99.0
    expected = [step for step in range(101, 160) if observed[step]]
    assert found(values, observed).tolist() == expected


def test_a_sensor_that_was_stuck_several_times_is_found_each_time() -> None:
    values = NOISE.copy()
    for start in (50, 200, 400):
        values[start : start + 40] = 0.0
    assert len(found(values)) == 3 * 39


@pytest.mark.parametrize(
    "values",
    [
        np.full(STEPS, 3.0),
        np.where(np.arange(STEPS) // 100 % 2, 1.0, 0.0),
        np.where(np.arange(STEPS) // 60 % 2, NOISE, 0.0),
        np.where(RANDOM.random(STEPS) < 0.05, np.abs(NOISE), 0.0),
        np.where(np.arange(STEPS) < 300, 20.0, 21.0),
        np.round(np.cumsum(NOISE) * 0.05, 0),
        NOISE[:10],
        NOISE[:0],
    ],
    ids=["constant", "valve", "panel", "rain", "two levels", "coarse", "few", "none"],
)
def test_a_habit_of_repeated_values_is_learned(values: np.ndarray) -> None:
    assert found(values).size == 0
