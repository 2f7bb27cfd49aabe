"""The leader: the fixed mixture of the experts with the smallest recent loss. Arithmetic only.

The mixtures have one or two experts, whose shares are multiples of 1 / PARTS. The strategy is follow the leader: the
mixture with the smallest remembered absolute loss makes the next prediction. An expert that is clearly better leads, so
nothing is lost against it; if errors cancel, a mixture leads. Losses are absolute, because with squares one jump of the
level that only one method misses would decide for a hundred steps. For the same reason a loss is capped at `CAP` times
the usual error of its sensor and place.

Losses are kept per key, which is a sensor, an age class and a place. The mean loss of the sensor and place at any age
counts towards a key as `AGE_LEAN` losses. Two other means count towards that one:

- The mean of the sensor at any place, as `PLACE_LEAN` losses. It is remembered for a few steps only, so it is the first
  to show that a level jumped.
- The mean of all sensors at the place, as `POOL_LEAN` losses, in shares of their caps. One sensor has too few probes to
  compare 12 mixtures: with four probe windows a step and 8 sensors, a key has one in about 15 steps. While a sensor's
  errors are far above their caps, its level has jumped, and the other sensors' errors do not show which expert follows
  it: `POOL_LEAN` then shrinks to nearly 0.

An expert sleeps in a cell for which it has no value. A mixture is awake if all its experts are; its mean loss counts
the cells in which it was awake, and only a mixture that is awake can lead.

Source: Cesa-Bianchi and Lugosi (2006), Prediction, learning, and games, chapters 2 and 3. The leader alone has no bound
on its regret; `glaim_stream.blend.hedge` limits what it can cost.

Sums have an exponential memory (`RecentSums`) and contain nothing older than a horizon. A sum that only decays never
forgets completely. So a new sum starts at every half horizon of the step count, and the
sum that is read started a half horizon before the newest: nothing older than the horizon is in it, not even in its last
bit. A state that ran for years equals a state that was rebuilt from the addends of the last horizon.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from glaim_stream.windows import HORIZON

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

PARTS = 4  # so 2, 3 and 4 experts have 5, 12 and 22 mixtures
MEMORY = 0.98  # factor per step: with few groups, a key has an error only every ten steps or so
SENSOR_MEMORY = 0.8  # factor per step
CAP = 1.5  # factor on the mean of each cell's largest error, by sensor and place
LARGEST = 1e290  # bound of errors that count: their sums stay finite, with factors up to 0.8^-96 = 2e9
AGE_LEAN = 10.0  # number of losses for which the mean of a key's sensor and place counts
PLACE_LEAN = 3.0  # number of losses for which the mean of its sensor counts
POOL_LEAN = 6.0  # number of losses for which the mean of all sensors at the place counts, without jumps
TRUST = 10.0  # power by which POOL_LEAN shrinks with the share of the sensor's recent errors that caps leave over


class RecentSums:
    """Two sums of any shape: the old one started half a horizon before the current half, the young one with it."""

    def __init__(self, shape: tuple[int, ...], *, memory: float, horizon: int) -> None:
        """Start with both sums at zero.

        Args:
            shape: shape of one sum.
            memory: factor by which an addend shrinks per step, in (0, 1].
            horizon: steps after which an addend is forgotten; even, at least 2.

        Raises:
            ValueError: an argument is out of its range.
        """
        if not 0 < memory <= 1:
            raise ValueError(f"expected a memory in (0, 1], found {memory}")
        if horizon < 2 or horizon % 2:
            raise ValueError(f"expected an even horizon of 2 steps or more, found {horizon}")
        self.memory, self.horizon = memory, horizon
        self.values: Doubles = np.zeros((2, *shape))  # [old, young]; callers add to them after `turn`
        self._half = horizon // 2
        self._block = -1  # step // half of the last turn; -1 before the first
        self._last: int | None = None

    def turn(self, step: int) -> tuple[float, float]:
        """Advance to `step`; returns the factors by which to multiply addends to the old and to the young sum.

        An addend of step s is multiplied by memory^-(s - start of its sum). The sums themselves are never rescaled, so
        a rebuilt state adds the same numbers in the same order.

        Raises:
            ValueError: `step` is not later than that of the last turn.
        """
        if self._last is not None and step <= self._last:
            raise ValueError(f"expected errors of a step after {self._last}, found {step}")
        block = step // self._half
        if self._last is None or block != self._block:
            follows = self._last is not None and block == self._block + 1
            self.values[0] = self.values[1] if follows else 0.0
            self.values[1] = 0.0
        self._block, self._last = block, step
        age = step - block * self._half  # steps since the young sum started; the old one started half a horizon earlier
        return self.memory ** -(age + self._half), self.memory**-age

    def read(self, step: int) -> Doubles | None:
        """The decayed sum at `step`; None if nothing was added within the horizon.

        Raises:
            ValueError: `step` is not later than that of the last turn: its own addends would count.
        """
        if self._last is None:
            return None
        if step <= self._last:
            raise ValueError(f"expected a step after {self._last}, whose errors are known, found {step}")
        passed = step // self._half - self._block  # half horizons started since the last turn
        if passed > 1:
            return None
        began = (self._block - 1 + passed) * self._half
        found: Doubles = self.values[passed] * self.memory ** (step - began)
        return found


def mixtures(experts: int) -> Doubles:
    """The fixed mixtures of this many experts, [mixtures, experts]; each row sums to 1."""
    every = (row for row in product(range(PARTS + 1), repeat=experts) if sum(row) == PARTS)
    return np.array([row for row in every if np.count_nonzero(row) <= 2]) / PARTS


def mixture_losses(errors: Doubles, mixed: Doubles) -> Doubles:
    """Absolute errors [n, mixtures] of mixtures [mixtures, experts] of errors [n, experts], without NaN."""
    return np.abs(mixture_errors(errors, mixed))


def mixture_errors(errors: Doubles, mixed: Doubles) -> Doubles:
    """Errors [n, mixtures] of mixtures [mixtures, experts] of errors [n, experts], without NaN.

    The sums run in the order of the experts. A product of matrices would add them in an order that depends on n.
    """
    total = errors[:, :1] * mixed[:, 0]
    for expert in range(1, mixed.shape[1]):
        total = total + errors[:, expert, None] * mixed[:, expert]
    return total


def awake_mixtures(mixed: Doubles | Bools, awake: Bools) -> Bools:
    """Mixtures [mixtures, experts] without a sleeping expert, bool [n, mixtures]; awake is [n, experts]."""
    if awake.all():
        return np.ones((len(awake), len(mixed)), np.bool_)
    up: Bools = (awake[:, None, :] | (mixed == 0)).all(axis=2)
    return up


@dataclass(frozen=True, slots=True)
class LossColumns:
    """The columns of a sum: the loss of each mixture, and the number of losses of all mixtures of the same experts."""

    mixtures: Doubles  # [m, experts]
    sets: Bools  # [s, experts] sets of experts in the mixtures
    count_of: Ints  # [m + s] index of the count column of each column

    @classmethod
    def of(cls, mixed: Doubles) -> LossColumns:
        """The columns of these mixtures."""
        sets, which = np.unique(mixed > 0, axis=0, return_inverse=True)
        return cls(mixed, sets, len(mixed) + np.concatenate([which.ravel(), np.arange(len(sets))]))

    def __len__(self) -> int:
        return len(self.count_of)

    def means(self, sums: Doubles) -> Doubles:
        """Means from sums [..., m + s]; each count becomes 1, and without losses both are 0."""
        count = sums[..., self.count_of]
        means: Doubles = sums / np.where(count > 0, count, 1.0)
        return means


@dataclass(frozen=True, slots=True)
class Standings:
    """Losses known at one step."""

    columns: LossColumns
    of_key: Doubles  # [sensors, ages, places, m + s] sums
    of_place: Doubles  # [sensors, places, m + s] means
    cap: Doubles  # [sensors, places] CAP times the usual error; 0 while there are no errors

    def losses(self, sensor: Ints, age: Ints, place: Ints) -> Doubles:
        """Mean losses of the mixtures in cells [n], float64 [n, m]; infinite where a mixture was never awake."""
        sums = self.of_key[sensor, age, place] + AGE_LEAN * self.of_place[sensor, place]
        mixed = len(self.columns.mixtures)
        count = sums[:, self.columns.count_of[:mixed]]
        known = count > 0
        return np.where(known, sums[:, :mixed] / np.where(known, count, 1.0), np.inf)

    def leader(self, sensor: Ints, age: Ints, place: Ints, awake: Bools) -> Doubles:
        """Weights of the experts in the leader's mixture for each cell, [n, experts]; 0 where not `awake` [n, experts].

        Equally good mixtures lead together.
        """
        losses, up = self.losses(sensor, age, place), awake_mixtures(self.columns.mixtures, awake)
        if not up.all():
            losses = np.where(up, losses, np.inf)
        leads = up & (losses <= losses.min(axis=1, keepdims=True))
        count = np.maximum(leads.sum(axis=1, keepdims=True), 1)
        weights: Doubles = (leads @ self.columns.mixtures) / count  # exact: the shares are multiples of 1/4
        return weights


class Leader:
    """Recent losses of each mixture by sensor, age class and place."""

    def __init__(self, experts: int, sensors: int, ages: int, places: int) -> None:
        """Start without losses, for this many experts, sensors, age classes and places."""
        self._shape = (sensors, ages, places)
        self._columns = LossColumns.of(mixtures(experts))
        columns = len(self._columns)
        # Sum of the largest error of a cell, and the number of cells.
        self._size = RecentSums((2, sensors * places), memory=MEMORY, horizon=HORIZON)
        self._key = RecentSums((sensors * ages * places, columns), memory=MEMORY, horizon=HORIZON)
        self._sensor = RecentSums((sensors, columns), memory=SENSOR_MEMORY, horizon=HORIZON)
        # Losses divided by their caps, so that no sensor's unit decides.
        self._pool = RecentSums((places, columns), memory=MEMORY, horizon=HORIZON)
        # Sum of the shares of errors that caps left over, and the number of cells.
        self._kept = RecentSums((2, sensors), memory=SENSOR_MEMORY, horizon=HORIZON)

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
        factors = [np.array(sums.turn(step)) for sums in (self._size, self._key, self._sensor, self._pool, self._kept)]
        if len(errors) == 0:
            return
        large = np.abs(errors).max(axis=1)
        mixed = self._columns.mixtures
        loss = mixture_losses(errors, mixed) * awake_mixtures(mixed, awake)
        of_place, of_key = sensor * self._shape[2] + place, np.ravel_multi_index((sensor, age, place), self._shape)
        size = self._size.values
        before = size.copy()
        size += factors[0][:, None, None] * [np.bincount(of_place, each, size.shape[2]) for each in (large, None)]
        # Each half uses the usual error since its own start, so it does not depend on forgotten errors.
        usual = np.where(before[:, 1:] > 0, before, size)  # an outlier must not raise its own cap
        cap = CAP * usual[:, 0, of_place] / usual[:, 1, of_place]
        share = np.divide(cap, large, out=np.ones_like(cap), where=large > cap)  # the smallest floats overflow it
        capped = np.empty((len(errors), 2, len(self._columns)))
        capped[:, :, : len(mixed)] = loss[:, None] * share.T[:, :, None]
        capped[:, :, len(mixed) :] = awake_mixtures(self._columns.sets, awake)[:, None]
        kept = [[np.bincount(sensor, each, self._shape[0]) for each in (half, None)] for half in share]
        self._kept.values += factors[4][:, None, None] * np.array(kept)
        relative = capped.copy()
        caps = np.repeat(cap.T[:, :, None], len(mixed), axis=2)
        relative[:, :, : len(mixed)] = np.divide(
            capped[:, :, : len(mixed)], caps, out=np.zeros(caps.shape), where=caps > 0
        )
        for sums, key, factor, rows in (
            (self._key, of_key, factors[1], capped),
            (self._sensor, sensor, factors[2], capped),
            (self._pool, place, factors[3], relative),
        ):
            found, total = _grouped(key, rows)
            sums.values[:, found] += factor[:, None, None] * total.swapaxes(0, 1)

    def standings(self, step: int) -> Standings:
        """The mean losses that decide the leader at `step`.

        Raises:
            ValueError: `step` is not later than the last step with errors: its own errors would count.
        """
        of_key, of_sensor, of_pool, size, kept = (
            sums.read(step) for sums in (self._key, self._sensor, self._pool, self._size, self._kept)
        )
        (sensors, _, places), columns = self._shape, len(self._columns)
        if of_key is None or of_sensor is None or of_pool is None or size is None or kept is None:
            of_key, of_place = np.zeros((*self._shape, columns)), np.zeros((sensors, places, columns))
            return Standings(self._columns, of_key, of_place, np.zeros((sensors, places)))
        by_age = of_key.reshape(*self._shape, columns)
        size = size.reshape(2, sensors, places)
        cap = CAP * _mean(size, 0.0)
        pooled = np.repeat(self._columns.means(of_pool)[None], sensors, axis=0)
        # Without errors at a place, the sensor's cap at any place; without any errors, any unit will do.
        anywhere = CAP * _mean(size.sum(axis=2), 1.0)[:, None]
        pooled[:, :, : len(self._columns.mixtures)] *= np.where(size[1] > 0, cap, anywhere)[:, :, None]
        lean = POOL_LEAN * _mean(kept, 1.0) ** TRUST
        by_place = by_age.sum(axis=1) + PLACE_LEAN * self._columns.means(of_sensor)[:, None]
        by_place += lean[:, None, None] * pooled
        return Standings(self._columns, by_age, self._columns.means(by_place), cap)


def _mean(sums: Doubles, otherwise: float) -> Doubles:
    """Means [...] from sums and numbers [2, ...]; `otherwise` where the number is 0."""
    means: Doubles = np.where(sums[1] > 0, sums[0] / np.where(sums[1] > 0, sums[1], 1.0), otherwise)
    return means


def _grouped(key: Ints, rows: Doubles) -> tuple[Ints, Doubles]:
    """The keys [k] that occur, and the sums [k, ...] of their rows [n, ...] in row order; n is not 0."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return ordered[starts], np.add.reduceat(rows[order], starts, axis=0)
