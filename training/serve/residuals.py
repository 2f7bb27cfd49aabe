"""Quantiles of truth minus imputed value, by sensor and gap age: the prediction intervals of a model.

They are measured on the validation part, with gaps as in a stream. A sensor and a random number of others fall silent
together, so an interval holds for a single fault and is cautious enough for a group that goes dark.

    newest      the error at the newest step, `age` steps after the sensor's last observation
    interior    the error at a step with later observations, `age` steps after the last observation before it

A cell counts only if the step before the gap was observed: otherwise a real gap next to the hidden one would pass for a
younger gap and widen its interval.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.contract import ResidualQuantiles
from training.data import Bools, Floats, Scale, WindowSet, hide
from training.evaluate import Fill

LEVELS = (0.05, 0.95)
GAP_AGES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 72)
FEWEST = 40  # with fewer errors a sensor uses those of all sensors, standardised
BATCH = 64

Gap = Callable[
    [np.random.Generator, int, int], tuple[int, int]
]  # (rng, window, age) -> first and past-last hidden step


def gap_ages(window: int) -> list[int]:
    """Return the ages to measure: ages that leave an observation in the window, and the window itself for silence."""
    return [age for age in GAP_AGES if age < window] + [window]


def residual_quantiles(
    windows: WindowSet, fill: Fill, scale: Scale, *, lag: int, most: int, seed: int
) -> ResidualQuantiles:
    """Measure on validation windows.

    Args:
        windows: Standardised windows.
        fill: The model.
        scale: Turns errors back into sensor units.
        lag: Steps from the scored step to the newest one, in the interior case; at least 1.
        most: Windows for each age.
        seed: Seed of the gaps.

    Returns:
        The contract's tables, in sensor units.
    """

    def newest(_: np.random.Generator, window: int, age: int) -> tuple[int, int]:
        return max(window - age, 0), window

    def interior(rng: np.random.Generator, window: int, age: int) -> tuple[int, int]:
        return max(window - lag - age, 0), window - lag + int(rng.integers(0, lag))

    ages = gap_ages(windows.window)
    lower_newest, upper_newest = _table(windows, fill, scale, ages, newest, 0, most, seed)
    lower_interior, upper_interior = _table(windows, fill, scale, ages, interior, lag, most, seed + 1)
    return ResidualQuantiles(
        levels=LEVELS, gap_ages=ages, newest_lower=lower_newest, newest_upper=upper_newest,
        interior_lower=lower_interior, interior_upper=upper_interior,
    )  # fmt: skip


def _table(
    windows: WindowSet, fill: Fill, scale: Scale, ages: list[int], gap: Gap, lag: int, most: int, seed: int
) -> tuple[list[list[float]], list[list[float]]]:
    """Return lower and upper quantiles [C][A] of the errors at the step `lag` before the newest."""
    columns = [_errors(windows, fill, age, gap, lag, most, seed) for age in ages]
    sensors = len(scale.std)
    lower, upper = np.zeros((sensors, len(ages))), np.zeros((sensors, len(ages)))
    for column, errors in enumerate(columns):
        all_errors = np.concatenate(errors)
        for sensor, of_sensor in enumerate(errors):
            sample = of_sensor if of_sensor.size >= FEWEST else all_errors
            low, high = np.quantile(sample, LEVELS) if sample.size else (-1.645, 1.645)
            lower[sensor, column], upper[sensor, column] = low * scale.std[sensor], high * scale.std[sensor]
    return lower.tolist(), upper.tolist()


def _errors(
    windows: WindowSet, fill: Fill, age: int, gap: Gap, lag: int, most: int, seed: int
) -> list[NDArray[np.float64]]:
    """Return truth minus imputed value at the scored step, standardised, for each sensor."""
    chosen = windows.spread(most)
    found: list[list[Floats]] = []
    for start in range(0, len(chosen), BATCH):
        values = windows.take(chosen[start : start + BATCH])
        rng = np.random.default_rng([seed, age, start])
        hidden = _fall_silent(rng, values.shape, age, gap)
        batch = hide(values, hidden)
        step = windows.window - 1 - lag
        error = batch.truth[:, :, step] - fill(batch.values, batch.observed)[:, :, step]
        scored = batch.hidden[:, :, step]
        if step >= age:  # otherwise the gap reaches back to the window's first step: nothing was observed before it
            scored = scored & batch.observed[:, :, step - age]
        found.append([error[scored[:, sensor], sensor] for sensor in range(values.shape[1])])
    return [np.concatenate(rows).astype(np.float64) for rows in zip(*found, strict=True)]


def _fall_silent(rng: np.random.Generator, shape: tuple[int, ...], age: int, gap: Gap) -> Bools:
    """Hide one gap in each window, the same one for a random number of sensors from one to all."""
    batch, sensors, width = shape
    hidden = np.zeros(shape, np.bool_)
    for index in range(batch):
        out = rng.permutation(sensors)[: rng.integers(1, sensors + 1)]
        first, last = gap(rng, width, age)
        hidden[index, out, first:last] = True
    return hidden
