"""The model's share of the blend: of a few fixed shares, the one with the smallest recent loss. Arithmetic only.

Every share of `SHARES` is an expert that predicts share * model + (1 - share) * baseline, from the baseline alone to
the model alone. The strategy is follow the leader: the expert with the smallest remembered absolute loss makes the next
prediction. Where the model or the baseline is clearly better, that one leads and the blend costs nothing compared with
it; where their errors cancel, a mixture leads. Losses are absolute, because with squares one jump of the level that
only one method misses would decide for a hundred steps. For the same reason a loss is capped at `CAP` times the usual
error of its sensor and place. The shares are fixed, so their losses depend on the errors alone and are forgotten as
the errors are.

Losses are kept per key, which is a sensor, an age class and a place. The mean loss of the sensor and place at any age
counts towards a key as `AGE_LEAN` losses, and the mean loss of the sensor anywhere counts towards that as `PLACE_LEAN`.
The sensor's losses are remembered for a few steps only, so they show first that a level jumped.

Source: Cesa-Bianchi and Lugosi (2006), Prediction, learning, and games, chapters 2 and 3; de Rooij and others (2014),
Follow the leader if you can, hedge if you must. Nothing is hedged here: exponential weights were no better on the
streams of tests/drift. No bound on the regret is proven; tests/drift measures it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend.recent import RecentSums
from glaim_stream.windows.history import HORIZON

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]

SHARES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
MEMORY = 0.98  # factor per step: with few groups, a key has an error only every ten steps or so
SENSOR_MEMORY = 0.8  # factor per step
CAP = 1.5  # times the mean of the larger of the two errors, by sensor and place
LARGEST = 1e290  # of an error that counts: sums of them stay finite, with factors up to 0.8^-96 = 2e9
AGE_LEAN = 10.0  # number of losses as which the mean of a key's sensor and place counts
PLACE_LEAN = 3.0  # number of losses as which the mean of its sensor counts


class Experts:
    """Recent losses of each share by sensor, age class and place."""

    def __init__(self, sensors: int, ages: int, places: int) -> None:
        """Start without losses, for this many sensors, age classes and places."""
        self._shape = (sensors, ages, places)
        columns = len(SHARES) + 1  # loss of each share, and the number of losses
        # Sum of the larger of the two errors, and their number.
        self._size = RecentSums((2, sensors * places), memory=MEMORY, horizon=HORIZON)
        self._key = RecentSums((sensors * ages * places, columns), memory=MEMORY, horizon=HORIZON)
        self._sensor = RecentSums((sensors, columns), memory=SENSOR_MEMORY, horizon=HORIZON)

    def learn(
        self, step: int, sensor: Ints, age: Ints, place: Ints, model_error: Doubles, baseline_error: Doubles
    ) -> None:
        """Add the errors of the probe cells of `step`, [n] each; pairs with one that is not below LARGEST are skipped.

        Args:
            step: number of the step, later than that of the last call.
            sensor: int64 [n].
            age: int64 [n], age class.
            place: int64 [n].
            model_error: float64 [n], imputed minus true.
            baseline_error: float64 [n], imputed minus true.

        Raises:
            ValueError: `step` is not later than that of the last call.
        """
        known = (np.abs(model_error) < LARGEST) & (np.abs(baseline_error) < LARGEST)
        sensor, age, place = sensor[known], age[known], place[known]
        model, baseline = model_error[known], baseline_error[known]
        large = np.maximum(np.abs(model), np.abs(baseline))
        loss = np.abs(SHARES * model[:, None] + (1.0 - SHARES) * baseline[:, None])
        of_place, of_key = sensor * self._shape[2] + place, np.ravel_multi_index((sensor, age, place), self._shape)
        sizes = np.array([np.bincount(of_place, column, self._size.values.shape[2]) for column in (large, None)])
        # Each half uses the usual error since its own start, so that it depends on nothing that it has forgotten.
        factors = zip(self._size.turn(step), self._key.turn(step), self._sensor.turn(step), strict=True)
        for half, (size_factor, key_factor, sensor_factor) in enumerate(factors):
            size = self._size.values[half]
            before = size.copy()
            size += size_factor * sizes
            usual = np.where(before[1] > 0, before, size)  # an outlier must not raise its own cap
            cap = CAP * usual[0, of_place] / usual[1, of_place]
            capped = np.ones((len(loss), len(SHARES) + 1))
            share = np.divide(cap, large, out=np.ones(len(loss)), where=large > cap)  # the smallest floats overflow it
            capped[:, :-1] = loss * share[:, None]
            self._key.values[half] += key_factor * _pooled(of_key, capped, len(self._key.values[half]))
            self._sensor.values[half] += sensor_factor * _pooled(sensor, capped, self._shape[0])

    def weights(self, step: int) -> Doubles:
        """The model's share of cells filled at `step`, [sensors, ages, places]; one half while there are no losses.

        Raises:
            ValueError: `step` is not later than the last one whose errors were added: its own errors would count.
        """
        of_key, of_sensor = self._key.read(step), self._sensor.read(step)
        if of_key is None or of_sensor is None:
            return np.full(self._shape, 0.5)
        by_age = of_key.reshape(*self._shape, -1)
        by_place = by_age.sum(axis=1) + PLACE_LEAN * _mean(of_sensor)[:, None]
        leaning = by_age + AGE_LEAN * _mean(by_place)[:, None]
        loss = leaning[..., :-1]
        leads = loss <= loss.min(axis=-1, keepdims=True)  # several where model and baseline agree
        weights: Doubles = np.where(leads, SHARES, 0.0).sum(axis=-1) / leads.sum(axis=-1)
        return weights


def _pooled(key: Ints, columns: Doubles, size: int) -> Doubles:
    """Sum rows [n, k] by key, [size, k]."""
    width = columns.shape[1]
    places = key[:, None] * width + np.arange(width)
    sums: Doubles = np.bincount(places.ravel(), columns.ravel(), size * width).astype(np.float64)  # ints where n is 0
    return sums.reshape(size, width)


def _mean(sums: Doubles) -> Doubles:
    """Means of sums whose last column is the count, which becomes 1; all 0 where the count is 0."""
    count = sums[..., -1:]
    mean: Doubles = sums / np.where(count > 0, count, 1.0)
    return mean
