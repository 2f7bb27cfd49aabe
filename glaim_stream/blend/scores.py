"""Recent errors of the imputers in one partition, and the blend weights that follow from them. Arithmetic only.

The errors are those of the probe cells (glaim_stream.windows.probes), pooled over the groups, from which the experts
(glaim_stream.blend.experts) compute the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend.experts import Experts
from glaim_stream.windows.probes import AGES, Place
from glaim_stream.windows.upgrades import Upgrades

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Answers:
    """Values of model and baseline for n cells, in the order of the steps at which they were imputed."""

    step: Ints  # [n] that closed when the cell was imputed, ascending
    sensor: Ints  # [n]
    age: Ints  # [n] class of the gap age (probes.age_class)
    place: Ints  # [n] probes.Place
    model: Doubles  # [n] sensor units; NaN where the model gave no value
    baseline: Doubles  # [n]

    def __len__(self) -> int:
        return len(self.step)

    @classmethod
    def none(cls) -> Answers:
        """Answers for no cell."""
        ints, doubles = np.empty(0, np.int64), np.empty(0, np.float64)
        return cls(ints, ints, ints, ints, doubles, doubles)


class ModelScores:
    """Recent errors of one model and its baseline in one partition."""

    def __init__(self, sensors: int) -> None:
        self._experts = Experts(sensors, len(AGES), len(Place))
        self._next = 0  # the step after the newest one seen

    def weights(self, step: int) -> Doubles:
        """The model's share for cells imputed as `step` closes, [sensors, ages, places]; steps must ascend."""
        return self._experts.weights(step)

    def walk(self, holes: Answers, probes: Answers, truth: NDArray[np.floating]) -> tuple[Doubles, Doubles]:
        """Process the steps in order: compute the weights of each step's cells, then learn the errors of its probes.

        Args:
            holes: cells to fill.
            probes: probe cells.
            truth: [probes], their hidden values.

        Returns:
            The model's share of each hole and of each probe cell.
        """
        with np.errstate(over="ignore"):  # errors that are not finite are skipped
            model_error, baseline_error = probes.model - truth, probes.baseline - truth
        every = [int(answers.step[-1]) + 1 for answers in (holes, probes) if len(answers)]
        self._next = max([self._next, *every])
        of_hole, of_probe = np.empty(len(holes)), np.empty(len(probes))
        for step in np.union1d(holes.step, probes.step).tolist():
            weights = self.weights(step)
            for answers, out in ((holes, of_hole), (probes, of_probe)):
                here = _at(answers, step)
                out[here] = weights[answers.sensor[here], answers.age[here], answers.place[here]]
            if here.stop > here.start:
                key = probes.sensor[here], probes.age[here], probes.place[here]
                self._experts.learn(step, *key, model_error[here], baseline_error[here])
        return of_hole, of_probe

    def latest(self, cells: Answers) -> Doubles:
        """The model's share of cells that are filled after the newest step seen, whatever their own steps."""
        weights: Doubles = self.weights(self._next)[cells.sensor, cells.age, cells.place]
        return weights


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


def _at(answers: Answers, step: int) -> slice:
    return slice(*np.searchsorted(answers.step, [step, step + 1]).tolist())
