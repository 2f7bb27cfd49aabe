"""What a partition knows of recent errors, and the weights that follow from it. Arithmetic only.

Errors of the side windows (glaim_stream.sides) are kept by sensor, age class and place, pooled over the groups. A key
that knows little leans on what is known of its sensor and place at any age, and that on the sensor's errors anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend import RecentError
from glaim_stream.sides import AGES, Place
from glaim_stream.upgrades import Upgrades

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]

# Longer than blend.MEMORY, which is for an error at every step: a key has one in ten steps or so, where few groups are
# asked, and a handful of errors is what a weight needs. After 96 steps an error has a twentieth of the say.
MEMORY = 0.97


@dataclass(frozen=True, slots=True)
class Answers:
    """What model and baseline say of n cells, in the order of the steps at which they were asked."""

    step: Ints  # [n] that closed as the question was asked, ascending
    sensor: Ints  # [n]
    age: Ints  # [n] class of the gap age (sides.age_class)
    place: Ints  # [n] sides.Place
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
        self._shape = (sensors, len(AGES), len(Place))
        self._by_age = RecentError(self._shape, memory=MEMORY)
        self._by_place = RecentError((sensors, len(Place)), memory=MEMORY)
        self._by_sensor = RecentError(sensors, memory=MEMORY)
        self._next = 0  # the step after the last one that was walked

    def weights(self, step: int) -> Doubles:
        """The model's share by sensor, age class and place for cells asked as `step` closes; steps ascend."""
        of_sensor = self._by_sensor.weights(step)
        of_place = self._by_place.weights(step, start=of_sensor[:, None])
        return self._by_age.weights(step, start=of_place[:, None, :])

    def walk(self, holes: Answers, questions: Answers, truth: NDArray[np.floating]) -> tuple[Doubles, Doubles]:
        """Go through the steps in order: weigh what was asked at each, then take in the errors that it showed.

        Args:
            holes: cells to be filled.
            questions: of side windows.
            truth: [questions] what was hidden.

        Returns:
            The model's share of each hole and of each question.
        """
        model_error, baseline_error = _evened(questions.model - truth, questions.baseline - truth)
        every = [int(answers.step[-1]) + 1 for answers in (holes, questions) if len(answers)]
        self._next = max([self._next, *every])
        of_hole, of_question = np.empty(len(holes)), np.empty(len(questions))
        for step in np.union1d(holes.step, questions.step).tolist():
            weights = self.weights(step)
            for answers, out in ((holes, of_hole), (questions, of_question)):
                here = _at(answers, step)
                out[here] = weights[answers.sensor[here], answers.age[here], answers.place[here]]
            if here.stop > here.start:
                sensor, age, place = questions.sensor[here], questions.age[here], questions.place[here]
                errors = model_error[here], baseline_error[here]
                self._by_age.pool(step, np.ravel_multi_index((sensor, age, place), self._shape), *errors)
                self._by_place.pool(step, sensor * len(Place) + place, *errors)
                self._by_sensor.pool(step, sensor, *errors)
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


def _evened(model_error: Doubles, baseline_error: Doubles) -> tuple[Doubles, Doubles]:
    """Errors of each question divided by the root of their common size: their squares are sizes then.

    As they are, one jump of the level, which only one method misses, would decide over a hundred steps by its square.
    """
    size = np.abs(model_error) + np.abs(baseline_error)
    root = np.sqrt(np.where(size > 0, size, 1.0))
    return model_error / root, baseline_error / root


def _at(answers: Answers, step: int) -> slice:
    return slice(*np.searchsorted(answers.step, [step, step + 1]).tolist())
