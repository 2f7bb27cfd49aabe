"""Sensors whose errors are large for every method must not choose the constants of the others."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from glaim_stream.form.form import ClosedForm
from tests.form.samples import DAY, fitted, windows

ROWS = 3000
Sensor = Callable[[int], np.ndarray]


def weather(seed: int) -> np.ndarray:
    """A wind speed and a temperature that follow the hour, [1, 2, N]."""
    rng, hour = np.random.default_rng(seed), 2 * np.pi * np.arange(ROWS) / DAY
    speed = 4.0 + 2.0 * np.sin(hour) + rng.normal(size=ROWS).cumsum() * 0.008
    temperature = np.round(2.0 * (15.0 + 6.0 * np.sin(hour - 1.0) + 0.3 * rng.normal(size=ROWS))) / 2.0
    return np.stack([speed, temperature])[None]


def rain(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(ROWS) < 0.05, rng.exponential(2.0, ROWS), 0.0)


def meter(seed: int) -> np.ndarray:
    return np.round(99_000.0 + np.cumsum(np.random.default_rng(seed).random(ROWS) * 3.0)) % 100_000.0


def valve(seed: int) -> np.ndarray:
    return (np.sin(np.arange(ROWS) / (10 + seed)) > 0).astype(np.float64)


def errors(form: ClosedForm, others: Sequence[Sensor]) -> np.ndarray:
    """Mean absolute errors of the two numbers where a fifth of the cells is hidden."""
    made = [make(20 + place)[None, None] for place, make in enumerate(others)]
    cut, end_ms = windows(np.concatenate([weather(2), *made], axis=1), 300)
    observed = np.random.default_rng(1).random(cut.shape) > 0.2
    mean = form.fill(cut * observed, observed, end_ms).mean
    return np.array([np.abs(mean - cut)[:, place][~observed[:, place]].mean() for place in (0, 1)])


@pytest.mark.parametrize(
    "others",
    [[rain], [rain, rain], [meter, rain], [rain, meter, valve]],
    ids=lambda each: "+".join(o.__name__ for o in each),
)
def test_numbers_are_filled_as_well_beside_rain_meters_and_valves_as_alone(others: Sequence[Sensor]) -> None:
    alone = errors(fitted(weather(1)).form, [])
    made = [make(10 + place)[None, None] for place, make in enumerate(others)]
    beside = errors(fitted(np.concatenate([weather(1), *made], axis=1)).form, others)
    assert (beside < 1.05 * alone).all(), beside / alone
