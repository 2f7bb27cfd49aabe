"""Recent errors of the imputers in one partition, and the blend weights that follow from them. Arithmetic only.

The errors are those of the probe cells (glaim_stream.windows.probes), pooled over the groups, from which the experts
(glaim_stream.blend.experts) compute the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend.experts import Experts, Weights
from glaim_stream.blend.hedge import published
from glaim_stream.blend.reach import BLOCK, Reach, Scored
from glaim_stream.core.angles import differences
from glaim_stream.windows import AGES, Place, Upgrades

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Expert(IntEnum):
    """The experts of a worker, in the order of the columns of `Predictions.values`; registered ones follow.

    Interpolation and last value are one expert: without a later reading they are the same value, and two experts that
    always agree would lead together and make every such row a blend.
    """

    MODEL = 0
    BASELINE = 1  # interpolation, or the last value where no reading follows
    GAUSSIAN = 2  # the closed form; a model without one, and without registered experts, has only two columns


@dataclass(frozen=True, slots=True)
class Reaching:
    """Cells [n] whose intervals get a factor, in the order of their steps."""

    step: Ints
    sensor: Ints
    weights: Doubles  # [n, experts]
    level: Ints  # levels of the half-widths (blend.reach)


WITHOUT_FORM = 2  # number of experts of a model without a closed form


@dataclass(frozen=True, slots=True)
class Predictions:
    """Values of the experts for n cells, in the order of the steps at which they were imputed."""

    step: Ints  # [n] step that closed when the cell was imputed, ascending
    sensor: Ints  # [n]
    age: Ints  # [n] class of the gap age (probes.age_class)
    place: Ints  # [n] probes.Place
    values: Doubles  # [n, experts] sensor units; NaN where an expert gave no value
    unmixable: Bools | None = None  # [n] cells that use only the closed form's value; None: none
    direction: Bools | None = None  # [n] cells whose value is a direction in degrees; None: none

    def __len__(self) -> int:
        return len(self.step)

    def errors(self, truth: NDArray[np.floating], values: Doubles | None = None) -> Doubles:
        """Values [n, ...] less the true ones [n], directions by the shorter way; `values` None: the experts' values.

        A difference beyond the largest float is infinite.
        """
        values = self.values if values is None else values
        shape = (-1, *[1] * (values.ndim - 1))
        with np.errstate(over="ignore", invalid="ignore"):
            if self.direction is None:
                found: Doubles = values - truth.reshape(shape)
                return found
            return differences(values, truth.reshape(shape), self.direction.reshape(shape))

    def slice(self, start: int, stop: int) -> Predictions:
        """Cells `[start, stop)`."""
        columns: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(self, **{name: each[start:stop] for name, each in columns.items() if each is not None})

    @classmethod
    def none(cls, experts: int = WITHOUT_FORM) -> Predictions:
        """Answers for no cell."""
        ints = np.empty(0, np.int64)
        return cls(ints, ints, ints, ints, np.empty((0, experts), np.float64))


class ModelScores:
    """Recent errors of one model and the other experts in one partition.

    The answers show the number of experts. When a closed form appears or goes, the errors are dropped: the prior
    weights depend on the number of experts, and an expert that only sleeps must not change them. 96 steps later the
    weights are those of a worker that has had these experts all the time. The bound of `experts` holds separately for
    the steps before and after the change.
    """

    def __init__(self, sensors: int, experts: int = WITHOUT_FORM) -> None:
        """Start without errors.

        Args:
            sensors: number of sensors of the model.
            experts: number of experts until answers show another one.
        """
        self._sensors = sensors
        self._next = 0  # the step after the newest one seen
        self._begin(experts)

    def _begin(self, experts: int) -> None:
        self._count = experts
        self._experts = Experts(experts, self._sensors, len(AGES), len(Place))
        self.reach = Reach(experts, self._sensors)

    def _begin_if_other(self, answers: Predictions) -> None:
        experts = answers.values.shape[1]
        if len(answers) and experts != self._count:
            self._begin(experts)

    def weights(self, step: int) -> Weights:
        """The experts' weights for cells imputed as `step` closes; steps must ascend."""
        return self._experts.weights(step)

    def walk(
        self,
        holes: Predictions,
        probes: Predictions,
        truth: NDArray[np.floating],
        learnt: NDArray[np.bool_] | None = None,
    ) -> tuple[Doubles, Doubles]:
        """Process the steps in order: compute the weights of each step's cells, then learn the errors of its probes.

        Args:
            holes: cells to fill.
            probes: probe cells, with the same experts.
            truth: [probes], their hidden values.
            learnt: [probes], True for probes that are learned from; None: all.

        Returns:
            The experts' weights of each hole [holes, experts] and of each probe cell [probes, experts].
        """
        for answers in (holes, probes):
            self._begin_if_other(answers)
        holes, probes = (each if len(each) else Predictions.none(self._count) for each in (holes, probes))
        errors = probes.errors(truth)  # errors that are not finite are skipped
        every = [int(answers.step[-1]) + 1 for answers in (holes, probes) if len(answers)]
        self._next = max([self._next, *every])
        of_hole, of_probe = np.empty(holes.values.shape), np.empty(probes.values.shape)
        for step in np.union1d(holes.step, probes.step).tolist():
            weights = self.weights(step)
            hole, probe = _at(holes, step), _at(probes, step)
            sensor, age, place, values = (
                np.concatenate([getattr(holes, column)[hole], getattr(probes, column)[probe]])
                for column in ("sensor", "age", "place", "values")
            )
            of_leader, leader = weights.parts(sensor, age, place, np.isfinite(values))
            found = published(of_leader, leader)
            count = hole.stop - hole.start
            of_hole[hole], of_probe[probe] = found[:count], found[count:]
            chosen = np.arange(count, len(found))
            if learnt is not None:
                chosen = chosen[learnt[probe]]
            if len(chosen):
                key = sensor[chosen], age[chosen], place[chosen]
                self._experts.learn(weights, *key, errors[probe][chosen - count], (of_leader[chosen], leader[chosen]))
        return of_hole, of_probe

    def table(self) -> Doubles:
        """The experts' weights after the newest step seen, [sensors, ages, places, experts]."""
        return self.weights(self._next).table()

    def reached(self, holes: Reaching, probes: Reaching, scored: Scored) -> tuple[Doubles, Doubles]:
        """Process the steps in order: compute the factors of each step's intervals, then learn its probes' errors.

        Args:
            holes: cells to fill, with weights from `walk`.
            probes: probe cells, with weights from `walk`.
            scored: the same probe cells.

        Returns:
            The factors of each hole [holes] and of each probe cell [probes].
        """
        of_hole, of_probe = np.ones(len(holes.step)), np.ones(len(probes.step))
        for block in np.union1d(holes.step // BLOCK, probes.step // BLOCK).tolist():
            ends = [block * BLOCK, (block + 1) * BLOCK]
            hole, probe = (slice(*np.searchsorted(cells.step, ends).tolist()) for cells in (holes, probes))
            for cells, at, found in ((holes, hole, of_hole), (probes, probe, of_probe)):
                if at.stop > at.start:
                    found[at] = self.reach.factors(ends[0], cells.weights[at], cells.sensor[at], cells.level[at])
            if probe.stop > probe.start:
                self.reach.learn(ends[0], scored.where(probe))
        return of_hole, of_probe

    def latest(self, cells: Predictions) -> Doubles:
        """The experts' weights of cells filled after the newest step seen, whatever their own steps."""
        self._begin_if_other(cells)
        return self.weights(self._next).of(cells.sensor, cells.age, cells.place, np.isfinite(cells.values))


class Scores:
    """Recent errors of a partition's models, and the final rows that wait for an upgrade.

    It belongs to the partition's windows and is replaced together with them.
    """

    def __init__(self, sensors: Sequence[int]) -> None:
        """Start without errors.

        Args:
            sensors: number of sensors of each model.
        """
        self.models = [ModelScores(count) for count in sensors]
        self.upgrades = [Upgrades() for _ in sensors]

    def group_codes(self) -> list[NDArray[np.int32]]:
        """Codes of the groups that wait for an upgrade."""
        return [each.group_codes() for each in self.upgrades]


def _at(answers: Predictions, step: int) -> slice:
    return slice(*np.searchsorted(answers.step, [step, step + 1]).tolist())
