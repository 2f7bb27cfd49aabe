"""The leader: of a few fixed mixtures of the experts, the one with the smallest recent loss. Arithmetic only.

The mixtures are those whose shares are multiples of 1 / PARTS, from each expert alone to even mixtures. The strategy is
follow the leader: the mixture with the smallest remembered absolute loss makes the next prediction. Where one expert is
clearly better, it leads and costs nothing compared with it; where errors cancel, a mixture leads. Losses are absolute,
because with squares one jump of the level that only one method misses would decide for a hundred steps. For the same
reason a loss is capped at `CAP` times the usual error of its sensor and place.

Losses are kept per key, which is a sensor, an age class and a place. The mean loss of the sensor and place at any age
counts towards a key as `AGE_LEAN` losses, and the mean loss of the sensor anywhere counts towards that as `PLACE_LEAN`.
The sensor's losses are remembered for a few steps only, so they show first that a level jumped.

An expert sleeps in a cell for which it has no value. A mixture is awake where all its experts are; its mean loss is
that of the cells in which it was awake, and only a mixture that is awake can lead.

Source: Cesa-Bianchi and Lugosi (2006), Prediction, learning, and games, chapters 2 and 3. The leader alone has no bound
on its regret; `glaim_stream.blend.hedge` limits what it can cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend.recent import RecentSums
from glaim_stream.windows.history import HORIZON

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

PARTS = 4  # of a mixture of two experts
PARTS_OF_MANY = 2  # of more experts: 4 experts have 10 mixtures by halves, and 35 by quarters
MEMORY = 0.98  # factor per step: with few groups, a key has an error only every ten steps or so
SENSOR_MEMORY = 0.8  # factor per step
CAP = 1.5  # times the mean of the largest of a cell's errors, by sensor and place
LARGEST = 1e290  # of an error that counts: sums of them stay finite, with factors up to 0.8^-96 = 2e9
AGE_LEAN = 10.0  # number of losses as which the mean of a key's sensor and place counts
PLACE_LEAN = 3.0  # number of losses as which the mean of its sensor counts


def mixtures(experts: int) -> Doubles:
    """The fixed mixtures of this many experts, [mixtures, experts]; each row sums to 1."""
    parts = PARTS if experts == 2 else PARTS_OF_MANY
    return np.array([row for row in product(range(parts + 1), repeat=experts) if sum(row) == parts]) / parts


def mixture_losses(errors: Doubles, mixed: Doubles) -> Doubles:
    """Absolute errors [n, mixtures] of mixtures [mixtures, experts] of errors [n, experts], without NaN.

    The sums run in the order of the experts. A product of matrices would add them in an order that depends on n.
    """
    total = errors[:, :1] * mixed[:, 0]
    for expert in range(1, mixed.shape[1]):
        total = total + errors[:, expert, None] * mixed[:, expert]
    return np.abs(total)


def awake_mixtures(mixed: Doubles, awake: Bools) -> Bools:
    """Which mixtures [mixtures, experts] have no sleeping expert, [n, mixtures]; awake is [n, experts]."""
    if awake.all():
        return np.ones((len(awake), len(mixed)), np.bool_)
    up: Bools = (awake[:, None, :] | (mixed == 0)).all(axis=2)
    return up


@dataclass(frozen=True, slots=True)
class Standings:
    """Mean losses as they are known at one step."""

    mixtures: Doubles  # [m, experts]
    losses: Doubles  # [sensors, ages, places, m]; infinite where a mixture was never awake
    cap: Doubles  # [sensors, places] CAP times the usual error; 0 while there is none

    def leader(self, sensor: Ints, age: Ints, place: Ints, awake: Bools) -> Doubles:
        """Weights of the experts by which the leader mixes cells, [n, experts]; 0 where asleep [n, experts].

        Mixtures that are equally good lead together.
        """
        losses = self.losses[sensor, age, place]
        up = awake_mixtures(self.mixtures, awake)
        if not up.all():
            losses = np.where(up, losses, np.inf)
        leads = up & (losses <= losses.min(axis=1, keepdims=True))
        count = np.maximum(leads.sum(axis=1, keepdims=True), 1)
        weights: Doubles = (leads @ self.mixtures) / count  # exact: the shares are multiples of 1/4
        return weights


class Leader:
    """Recent losses of each mixture by sensor, age class and place."""

    def __init__(self, experts: int, sensors: int, ages: int, places: int) -> None:
        """Start without losses, for this many experts, sensors, age classes and places."""
        self._shape = (sensors, ages, places)
        self._mixtures = mixtures(experts)
        columns = 2 * len(self._mixtures)  # loss of each mixture, and the number of its losses
        # Sum of the largest error of a cell, and the number of cells.
        self._size = RecentSums((2, sensors * places), memory=MEMORY, horizon=HORIZON)
        self._key = RecentSums((sensors * ages * places, columns), memory=MEMORY, horizon=HORIZON)
        self._sensor = RecentSums((sensors, columns), memory=SENSOR_MEMORY, horizon=HORIZON)

    def learn(self, step: int, sensor: Ints, age: Ints, place: Ints, errors: Doubles, awake: Bools) -> None:
        """Add the errors of the cells of `step`.

        Args:
            step: number of the step, later than that of the last call.
            sensor: int64 [n].
            age: int64 [n], age class.
            place: int64 [n].
            errors: float64 [n, experts], below LARGEST in size; 0 where asleep.
            awake: bool [n, experts], True somewhere in each row.

        Raises:
            ValueError: `step` is not later than that of the last call.
        """
        large = np.abs(errors).max(axis=1)
        loss = mixture_losses(errors, self._mixtures)
        up = awake_mixtures(self._mixtures, awake)
        of_place, of_key = sensor * self._shape[2] + place, np.ravel_multi_index((sensor, age, place), self._shape)
        sizes = np.array([np.bincount(of_place, column, self._size.values.shape[2]) for column in (large, None)])
        scaled = np.concatenate([loss, up], axis=1)
        # Each half uses the usual error since its own start, so that it depends on nothing that it has forgotten.
        factors = zip(self._size.turn(step), self._key.turn(step), self._sensor.turn(step), strict=True)
        for half, (size_factor, key_factor, sensor_factor) in enumerate(factors):
            size = self._size.values[half]
            before = size.copy()
            size += size_factor * sizes
            usual = np.where(before[1] > 0, before, size)  # an outlier must not raise its own cap
            cap = CAP * usual[0, of_place] / usual[1, of_place]
            share = np.divide(cap, large, out=np.ones(len(loss)), where=large > cap)  # the smallest floats overflow it
            scaled[:, : loss.shape[1]] = loss * up * share[:, None]
            np.add.at(self._key.values[half], of_key, key_factor * scaled)
            np.add.at(self._sensor.values[half], sensor, sensor_factor * scaled)

    def standings(self, step: int) -> Standings:
        """The mean losses that decide the leader at `step`.

        Raises:
            ValueError: `step` is not later than the last one whose errors were added: its own errors would count.
        """
        of_key, of_sensor, of_place = self._key.read(step), self._sensor.read(step), self._size.read(step)
        sensors, _, places = self._shape
        if of_key is None or of_sensor is None or of_place is None:
            never = np.full((*self._shape, len(self._mixtures)), np.inf)
            return Standings(self._mixtures, never, np.zeros((sensors, places)))
        by_age = of_key.reshape(*self._shape, 2, -1)
        by_place = by_age.sum(axis=1) + PLACE_LEAN * _mean(of_sensor.reshape(sensors, 2, -1))[:, None]
        leaning = by_age + AGE_LEAN * _mean(by_place)[:, None]
        loss, count = leaning[..., 0, :], leaning[..., 1, :]
        losses = np.where(count > 0, loss / np.where(count > 0, count, 1.0), np.inf)
        cap = CAP * np.divide(of_place[0], of_place[1], out=np.zeros(of_place.shape[1]), where=of_place[1] > 0)
        return Standings(self._mixtures, losses, cap.reshape(sensors, places))


def _mean(sums: Doubles) -> Doubles:
    """Means of sums [..., 2, m] of losses and counts; each count becomes 1, or 0 where it is 0."""
    count = sums[..., 1:, :]
    mean: Doubles = sums / np.where(count > 0, count, 1.0)
    return mean
