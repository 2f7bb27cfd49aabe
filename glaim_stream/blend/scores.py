"""What a partition knows of recent errors, and the weights that follow from it. Arithmetic only.

Errors of the probe windows (glaim_stream.windows.probes), pooled over the groups, go to the experts
(glaim_stream.blend.experts).
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
    """What model and baseline say of n cells, in the order of the steps at which they were asked."""

    step: Ints  # [n] that closed as the question was asked, ascending
    sensor: Ints  # [n]
    age: Ints  # [n] class of the gap age (probes.age_class)
    place: Ints  # [n] probes.Place
    model: Doubles  # [n] sensor units; NaN where the model did not answer
    baseline: Doubles  # [n]

    def __len__(self) -> int:
        return len(self.step)

    @classmethod
    def none(cls) -> Answers:
        """No cell."""
        ints, doubles = np.empty(0, np.int64), np.empty(0, np.float64)
        return cls(ints, ints, ints, ints, doubles, doubles)


class ModelScores:
    """Recent errors of one model's answers in one partition."""

    def __init__(self, sensors: int) -> None:
        self._experts = Experts(sensors, len(AGES), len(Place))
        self._next = 0  # the step after the last one that was walked

    def weights(self, step: int) -> Doubles:
        """The model's share by sensor, age class and place for cells asked as `step` closes; steps ascend."""
        return self._experts.weights(step)

    def walk(self, holes: Answers, questions: Answers, truth: NDArray[np.floating]) -> tuple[Doubles, Doubles]:
        """Go through the steps in order: weigh what was asked at each, then take in the errors that it showed.

        Args:
            holes: cells to be filled.
            questions: of probe windows.
            truth: [questions] what was hidden.

        Returns:
            The model's share of each hole and of each question.
        """
        model_error, baseline_error = questions.model - truth, questions.baseline - truth
        every = [int(answers.step[-1]) + 1 for answers in (holes, questions) if len(answers)]
        self._next = max([self._next, *every])
        of_hole, of_question = np.empty(len(holes)), np.empty(len(questions))
        for step in np.union1d(holes.step, questions.step).tolist():
            weights = self.weights(step)
            for answers, out in ((holes, of_hole), (questions, of_question)):
                here = _at(answers, step)
                out[here] = weights[answers.sensor[here], answers.age[here], answers.place[here]]
            if here.stop > here.start:
                key = questions.sensor[here], questions.age[here], questions.place[here]
                self._experts.learn(step, *key, model_error[here], baseline_error[here])
        return of_hole, of_question

    def latest(self, cells: Answers) -> Doubles:
        """The model's share of cells that are filled now, whenever their steps were."""
        weights: Doubles = self.weights(self._next)[cells.sensor, cells.age, cells.place]
        return weights


class Scores:
    """Of one partition: recent errors, and finals that wait for a better rung.

    It belongs to the partition's windows and is made anew with them.
    """

    def __init__(self, sensors: Sequence[int]) -> None:
        """Know nothing of models with so many sensors each."""
        self.models = [ModelScores(count) for count in sensors]
        self.upgrades = [Upgrades() for _ in sensors]


def _at(answers: Answers, step: int) -> slice:
    return slice(*np.searchsorted(answers.step, [step, step + 1]).tolist())
