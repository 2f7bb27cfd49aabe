"""The model's share of a mixture, chosen among a few by what each would have cost lately. Arithmetic only.

Every share of `SHARES` is an expert: it answers share * model + (1 - share) * baseline, from nothing at all to the
model alone. Follow the leader: the one with the smallest remembered absolute loss answers next. Where the model is the
better one by a margin, or the baseline, the leader is that one, and the blend costs nothing against it; where their
errors cancel a mixture leads. Absolute losses, because squares let one jump of the level, which only one method
misses, decide for a hundred steps; for the same reason a loss is capped at `CAP` times the usual error of its sensor
and place. The experts are fixed shares, so that their losses need no state and are forgotten as the errors are.

Errors are kept by sensor, age class and place. A key leans on what is known of its sensor and place at any age, and
that on its sensor's errors anywhere, which are remembered for a few steps only: they tell first that a level jumped.

Source: Cesa-Bianchi and Lugosi (2006), Prediction, learning, and games, chapters 2 and 3; de Rooij and others (2014),
Follow the leader if you can, hedge if you must. Nothing is hedged here: exponential weights were no better on the
streams of tests/drift. So no bound on the regret is proven; tests/drift measures it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend.recent import RecentSums
from glaim_stream.windows.history import HORIZON

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]

SHARES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
MEMORY = 0.98  # of a step: a key has an error in ten steps or so, where few groups are asked
SENSOR_MEMORY = 0.8
CAP = 1.5  # times the mean of the larger error of the two, by sensor and place
AGE_LEAN = 10.0  # losses that the mean of a key's sensor and place is worth
PLACE_LEAN = 3.0  # losses that the mean of its sensor is worth there


class Experts:
    """Recent losses of each share by sensor, age class and place."""

    def __init__(self, sensors: int, ages: int, places: int) -> None:
        """Know nothing yet of so many keys."""
        self._shape = (sensors, ages, places)
        columns = len(SHARES) + 1  # losses of each share, and their count
        self._size = RecentSums((2, sensors * places), memory=MEMORY, horizon=HORIZON)  # larger errors, and their count
        self._key = RecentSums((sensors * ages * places, columns), memory=MEMORY, horizon=HORIZON)
        self._sensor = RecentSums((sensors, columns), memory=SENSOR_MEMORY, horizon=HORIZON)

    def learn(
        self, step: int, sensor: Ints, age: Ints, place: Ints, model_error: Doubles, baseline_error: Doubles
    ) -> None:
        """Take in the errors of the questions asked at `step`, [n] each; one counts where both are finite.

        Raises:
            ValueError: `step` is not later than the last one.
        """
        known = np.isfinite(model_error) & np.isfinite(baseline_error)
        sensor, age, place = sensor[known], age[known], place[known]
        model, baseline = model_error[known], baseline_error[known]
        large = np.maximum(np.abs(model), np.abs(baseline))
        loss = np.abs(SHARES * model[:, None] + (1.0 - SHARES) * baseline[:, None])
        of_place, of_key = sensor * self._shape[2] + place, np.ravel_multi_index((sensor, age, place), self._shape)
        sizes = np.array([np.bincount(of_place, column, self._size.values.shape[2]) for column in (large, None)])
        # Each half has its own usual size, since its own beginning: it must not know what it is to have forgotten.
        factors = zip(self._size.turn(step), self._key.turn(step), self._sensor.turn(step), strict=True)
        for half, (size_factor, key_factor, sensor_factor) in enumerate(factors):
            size = self._size.values[half]
            before = size.copy()
            size += size_factor * sizes
            usual = np.where(before[1] > 0, before, size)  # a wild error must not set the bar for itself
            cap = CAP * usual[0, of_place] / usual[1, of_place]
            capped = np.ones((len(loss), len(SHARES) + 1))
            capped[:, :-1] = loss * np.minimum(1.0, cap / np.where(large > 0, large, 1.0))[:, None]
            self._key.values[half] += key_factor * _pooled(of_key, capped, len(self._key.values[half]))
            self._sensor.values[half] += sensor_factor * _pooled(sensor, capped, self._shape[0])

    def weights(self, step: int) -> Doubles:
        """The model's share of cells asked at `step` by sensor, age class and place; one half while nothing is known.

        Raises:
            ValueError: `step` is not later than the last one whose errors are known: its own would be used.
        """
        of_key, of_sensor = self._key.read(step), self._sensor.read(step)
        if of_key is None or of_sensor is None:
            return np.full(self._shape, 0.5)
        by_age = of_key.reshape(*self._shape, -1)
        by_place = by_age.sum(axis=1) + PLACE_LEAN * _mean(of_sensor)[:, None]
        leaning = by_age + AGE_LEAN * _mean(by_place)[:, None]
        loss = leaning[..., :-1]
        leads = loss <= loss.min(axis=-1, keepdims=True)  # several where model and baseline said the same
        weights: Doubles = np.where(leads, SHARES, 0.0).sum(axis=-1) / leads.sum(axis=-1)
        return weights


def _pooled(key: Ints, columns: Doubles, size: int) -> Doubles:
    """Sums of rows [n, k] by key, [size, k]."""
    width = columns.shape[1]
    places = key[:, None] * width + np.arange(width)
    sums: Doubles = np.bincount(places.ravel(), columns.ravel(), size * width).astype(np.float64)  # ints where n is 0
    return sums.reshape(size, width)


def _mean(sums: Doubles) -> Doubles:
    """Of sums whose last column is the count: the means, and 1 for the count; 0 where nothing is known."""
    count = sums[..., -1:]
    mean: Doubles = sums / np.where(count > 0, count, 1.0)
    return mean
