"""Weights of the experts that fill a hole: follow the leader, and hedge against its failures. Arithmetic only.

The leader (`leader`) is the mixture of experts with the smallest recent loss of a key, which is a sensor, an age class
and a place. It and each expert are then weighted by their losses in the current half horizon, pooled over the ages
(`hedge`); as long as the leader keeps up with every expert, only it decides. An expert that has no value for a cell
sleeps there and has no weight.

**Bound.** In every half horizon (48 steps), for each sensor and place, the blend's summed loss exceeds that of each of
K experts by at most ln(100 K) / 0.8 + 0.12 T. T is the number of steps with errors, a step's loss is the mean of its
cells' losses, and a cell counts for an expert if the expert is awake in it. The loss of an answer with error e is

    |e| / max(CAP * the usual error before this step, largest |error| of the experts awake in the cell)

so it lies in [0, 1] whatever the jump, and is 0 if all are exact. `hedge` has the proof, the bound against the leader,
and the bound with errors that come late. The bound holds for cells whose errors are learnt; cells with fewer than two
experts awake have none to compare.

Source: de Rooij, van Erven, Gruenwald and Koolen (2014), Follow the leader if you can, hedge if you must.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend.hedge import Hedge, awake_weights, published
from glaim_stream.blend.leader import LARGEST, Leader, Standings, mixture_losses

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of one step, for any cell."""

    step: int
    standings: Standings
    hedge: Doubles  # [sensors * places, 1 + experts], the leader's weight first

    def of(self, sensor: Ints, age: Ints, place: Ints, awake: Bools) -> Doubles:
        """Return the weights of the experts in cells [n], float64 [n, experts].

        Args:
            sensor: int64 [n].
            age: int64 [n], age class.
            place: int64 [n].
            awake: bool [n, experts], experts with a value for the cell.

        Returns:
            Weights that sum to 1 over the experts awake and are 0 for others; all 0 if none is awake.
        """
        return published(*self.parts(sensor, age, place, awake))

    def parts(self, sensor: Ints, age: Ints, place: Ints, awake: Bools) -> tuple[Doubles, Doubles]:
        """Return the weights [n, 1 + experts] of leader and experts, and the leader's own [n, experts] of the experts.

        The arguments are those of `of`.
        """
        pool = sensor * self.standings.cap.shape[1] + place
        return awake_weights(self.hedge[pool], awake), self.standings.leader(sensor, age, place, awake)

    def table(self) -> Doubles:
        """The weights of every key with all experts awake, [sensors, ages, places, experts]."""
        shape = self.standings.of_key.shape[:-1]
        sensor, age, place = (each.ravel() for each in np.indices(shape))
        weights = self.of(sensor, age, place, np.ones((len(sensor), self.hedge.shape[1] - 1), np.bool_))
        return weights.reshape(*shape, -1)


class Experts:
    """Recent losses of the leader and of each expert."""

    def __init__(self, count: int, sensors: int, ages: int, places: int) -> None:
        """Start without losses, for `count` experts and this many sensors, age classes and places."""
        self._leader = Leader(count, sensors, ages, places)
        self._hedge = Hedge(sensors * places, count)

    def weights(self, step: int) -> Weights:
        """The weights of cells that are filled at `step`; equal weights while there are no losses.

        Raises:
            ValueError: `step` is not later than the last step with errors: its own errors would count.
        """
        return Weights(step, self._leader.standings(step), self._hedge.weights(step))

    def learn(
        self,
        used: Weights,
        sensor: Ints,
        age: Ints,
        place: Ints,
        errors: Doubles,
        parts: tuple[Doubles, Doubles] | None = None,
    ) -> None:
        """Add the errors of the probe cells of a step.

        Args:
            used: weights that were used at the step, which is later than that of the last call.
            sensor: int64 [n].
            age: int64 [n], age class.
            place: int64 [n].
            errors: float64 [n, experts], imputed minus true; NaN where an expert was asleep. An expert with an error
                not below LARGEST counts as asleep, and a cell with fewer than two experts awake is skipped.
            parts: `used.parts` of these cells, if known; used in cells in which no expert is asleep.

        Raises:
            ValueError: the step is not later than that of the last call.
        """
        awake = np.abs(errors) < LARGEST
        if not awake.all():
            compared = awake.sum(axis=1) > 1
            sensor, age, place, awake = sensor[compared], age[compared], place[compared], awake[compared]
            errors, parts = np.where(awake, errors[compared], 0.0), None
        weights, leader = parts or used.parts(sensor, age, place, awake)
        self._leader.learn(used.step, sensor, age, place, errors, awake)
        size, cap = np.abs(errors), used.standings.cap
        largest = np.maximum(cap[sensor, place], size.max(axis=1))[:, None]
        blended = mixture_losses(errors * leader, np.ones((1, errors.shape[1])))
        losses = np.concatenate([blended, size], axis=1) / np.where(largest > 0, largest, 1.0)
        self._hedge.learn(used.step, sensor * cap.shape[1] + place, np.minimum(losses, 1.0), awake, weights)
