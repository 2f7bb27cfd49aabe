"""Sensors that mostly rest: the bands of holes between readings that differ."""

import numpy as np
import pytest

from glaim_stream.tables.fill import fill_groups
from glaim_stream.tables.groups import Group, Result

STEPS = 800


def filled(values: np.ndarray) -> Result:
    group = Group("g", 60_000 * np.arange(values.shape[1]), values)
    return fill_groups([group], sensors=[f"s{place}" for place in range(len(values))])


def wave(steps: int = STEPS) -> np.ndarray:
    rng = np.random.default_rng(0)
    values = 20 + 5 * np.sin(np.arange(steps) / 24) + 0.1 * rng.normal(size=steps)
    return np.where(rng.random(steps) < 0.03, np.nan, values)


def mostly(rest: float, seed: int = 3) -> np.ndarray:
    """Readings [N] that are noisy in two stretches of 14 steps, and elsewhere at rest."""
    rng = np.random.default_rng(seed)
    values = np.full(STEPS, rest)
    for start in (100, 400):
        values[start : start + 14] = rest + 0.31 + 0.02 * rng.normal(size=14)
    return values


@pytest.mark.parametrize("rest", [0.0, 4.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_hole_while_a_sensor_moves_that_mostly_rests_has_a_band_that_holds_the_truth(rest: float, seed: int) -> None:
    truth = mostly(rest, seed)
    values = np.stack([wave(), truth])
    holes = [20, 106, 107, 108, 250, 405, 406]
    values[1, holes] = np.nan

    result = filled(values)

    assert result.chosen["s1"] == "interpolation"
    found = result.groups[0]
    lower, value, upper = (each[1, holes] for each in (found.lower, found.values, found.upper))
    assert ((lower < upper) & (lower <= value) & (value <= upper)).all()
    assert ((lower <= truth[holes]) & (truth[holes] <= upper)).all()
    moving = np.array([106, 107, 108, 405, 406])
    rests = found.upper[1, [20, 250]] - found.lower[1, [20, 250]]
    assert (rests < (found.upper - found.lower)[1, moving].min()).all()


def test_a_valve_that_was_turned_once_may_have_been_turned_anywhere_between_its_readings() -> None:
    valve = np.where(np.arange(STEPS) < 500, 0.0, 1.0)
    values = np.stack([wave(), valve])
    holes = [100, 498, 499, 500, 501, 502, 700]
    values[1, holes] = np.nan
    found = filled(values).groups[0]
    assert set(found.values[1, holes]) <= {0.0, 1.0}
    assert found.lower[1, 498:503].tolist() == [0.0] * 5
    assert found.upper[1, 498:503].tolist() == [1.0] * 5


@pytest.mark.parametrize("step", [0.1, 1.0, 250.0])
@pytest.mark.parametrize("steps", [12, STEPS])
def test_a_straight_line_is_known_to_half_of_its_step(step: float, steps: int) -> None:
    values = np.stack([wave(steps), step * np.arange(steps)])
    values[1, 6] = np.nan
    found = filled(values).groups[0]
    assert found.values[1, 6] == pytest.approx(6 * step)
    assert found.lower[1, 6] == pytest.approx(5.5 * step, abs=0.1 * step)
    assert found.upper[1, 6] == pytest.approx(6.5 * step, abs=0.1 * step)


def test_bands_of_a_sensor_that_does_not_rest_have_one_width_whether_or_not_its_readings_differ() -> None:
    rng = np.random.default_rng(8)
    values = np.stack([wave(), np.round(rng.normal(size=STEPS).cumsum())])
    before, after = values[1, 99:600:50], values[1, 101:602:50]
    values[1, 100:601:50] = np.nan
    found = filled(values).groups[0]
    width = (found.upper - found.lower)[1, 100:601:50]
    assert 0 < (before == after).sum() < len(width)
    assert np.ptp(width) < 1e-9
