"""Intervals are quantiles of measured errors by sensor and gap age, in the sensor's unit."""

import numpy as np
import pytest

from glaim_stream.core.contract import ResidualQuantiles
from glaim_stream.form import last_value
from training.data import Bools, Floats, Scale, WindowSet
from training.evaluate import with_fallback
from training.serve.residuals import LEVELS, gap_ages, residual_quantiles

WINDOW = 32


def measured(values: Floats, scale: Scale, fill: object = None, most: int = 500) -> ResidualQuantiles:
    windows = WindowSet(values, WINDOW)
    return residual_quantiles(windows, fill or with_fallback(last_value), scale, lag=4, most=most, seed=3)  # type: ignore[arg-type]


def scale_of(*std: float) -> Scale:
    deviation = np.array(std)
    return Scale(np.zeros(len(std)), deviation, -deviation, deviation)


def random_walk(rows: int = 4000, sensors: int = 2) -> Floats:
    steps = np.random.default_rng(0).standard_normal((1, sensors, rows))
    return steps.cumsum(axis=-1).astype(np.float32)


def test_the_largest_age_is_the_window() -> None:
    assert gap_ages(32) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    assert gap_ages(2) == [1, 2]


def test_the_error_of_last_value_on_a_random_walk_grows_with_the_root_of_the_age() -> None:
    """The walk's steps are standard normal, so an error of age a has deviation sqrt(a); 5 % lie below -1.645 of it."""
    table = measured(random_walk(), scale_of(1.0, 10.0))
    lower, upper = table.table(newest=True)
    for column, age in enumerate(table.gap_ages[:6]):
        assert upper[0, column] == pytest.approx(1.645 * np.sqrt(age), rel=0.25)
        assert lower[0, column] == pytest.approx(-1.645 * np.sqrt(age), rel=0.25)
        assert upper[1, column] == pytest.approx(
            16.45 * np.sqrt(age), rel=0.25
        )  # in sensor units, so ten times as wide
    assert LEVELS == (0.05, 0.95)


def test_in_the_interior_the_model_sees_later_observations() -> None:
    seen: list[Bools] = []

    def recording_fill(values: Floats, observed: Bools) -> Floats:
        seen.append(observed)
        return values

    measured(random_walk(300), scale_of(1.0, 1.0), recording_fill)
    ages = len(gap_ages(WINDOW))
    newest, interior = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    assert len(newest) == len(interior) >= ages
    assert all((~window[:, :, -1]).any(axis=1).all() for window in newest)
    assert all(window[:, :, -1].all() for window in interior)
    assert all((~window[:, :, -5]).any(axis=1).all() for window in interior)


def test_a_real_gap_before_the_hidden_one_adds_to_its_age() -> None:
    """Sensor 0 reports every other step: its last observation is never one step old, and two steps old at age 2."""
    values = random_walk()
    values[0, 0, ::2] = np.nan
    upper = measured(values, scale_of(1.0, 1.0)).table(newest=True)[1]
    assert (
        upper[0, 0] == upper[1, 0] == pytest.approx(1.645, rel=0.2)
    )  # pooled over all sensors: sensor 0 has no error of age 1
    assert upper[0, 1] != upper[1, 1]
    assert upper[0, 1] == pytest.approx(1.645 * np.sqrt(2), rel=0.2)


def test_a_sensor_with_few_errors_uses_the_pooled_ones_in_its_unit() -> None:
    values = random_walk()
    values[0, 1, 40:] = np.nan  # sensor 1 has only a few windows
    upper = measured(values, scale_of(1.0, 5.0)).table(newest=True)[1]
    assert upper[1, 0] == pytest.approx(5 * upper[0, 0], rel=0.2)
    assert np.isfinite(upper).all()


def test_the_same_seed_gives_the_same_quantiles() -> None:
    values = random_walk(600)
    assert measured(values, scale_of(1.0, 1.0), most=60) == measured(values, scale_of(1.0, 1.0), most=60)
