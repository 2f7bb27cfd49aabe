"""The parts of a value, by the method that made it: contributions of readings and named remainders. They add up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.angles import around
from glaim_stream.core.errors import ImputerError
from glaim_stream.core.vocabulary import Method
from glaim_stream.form import CARRIED, EXPECTED, LEVEL, LINE, RELATION, ClosedForm, explain, interpolation
from glaim_stream.operate.explain.estimates import Estimate

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

_SAME = 1e-9  # share of the largest part: a smaller rest is rounding error
_BASES = {
    LEVEL: "the sensor's own level in the window",
    EXPECTED: "the level that the other sensors' levels lead to expect",
    RELATION: "constant of the relation between the sensors",
    CARRIED: "",
    LINE: "",
}


@dataclass(frozen=True)
class Part:
    """A part of a value that no single reading carries."""

    name: str
    value: float


@dataclass(frozen=True)
class Parts:
    """A value as the sum of its parts, in the sensor's unit.

    value: the explained value.
    contributions: float64 [C, T], contributions of the window's readings.
    parts: the other parts, the base first; none of them is 0.
    deviation: deviation of the closed form, before rounding; None for other methods.
    """

    value: float
    contributions: Doubles
    parts: tuple[Part, ...]
    deviation: float | None = None

    @property
    def total(self) -> float:
        """The sum of all parts, which is the value but for rounding errors."""
        return float(self.contributions.sum()) + sum(part.value for part in self.parts)

    def completed(self, value: float, name: str) -> Parts:
        """The parts of another value, with the difference as one part; left out if it is a rounding error."""
        rest = value - self.total
        size = max(abs(value), float(np.abs(self.contributions).sum()), *(abs(each.value) for each in self.parts), 0.0)
        added = (Part(name, rest),) if abs(rest) > _SAME * size else ()
        return replace(self, value=value, parts=self.parts + added)


def of_form(form: ClosedForm, window: Estimate, sensor: int) -> Parts | None:
    """The parts of the closed form's value; None if it declines."""
    assert window.values is not None
    assert window.observed is not None
    found = explain(form, window.values, window.observed, window.end_ms, sensor, window.step, window.newest)
    if found is None:
        return None
    named = Part(_BASES[found.basis], found.base), Part("bounds of the closed form", found.bounded)
    parts = tuple(part for part in named if part.value)
    out = Parts(found.value, found.contributions, parts, found.deviation)
    return out.completed(found.value, "rounding errors: sensors are nearly copies or sums of one another")


def of_baseline(window: Estimate, sensor: int, *, direction: bool) -> tuple[Parts, Method] | None:
    """The parts of interpolation, or of the last value if no reading follows; None without any reading.

    The readings of a direction are turned so that the shorter arc between them holds the value: 0 between 350 and 10
    has the parts -5 and 5.
    """
    assert window.values is not None
    assert window.observed is not None
    step, seen = window.step, np.flatnonzero(window.observed[sensor])
    if not len(seen):
        return None
    before, after = seen[seen < step], seen[seen > step]
    left = int(before[-1] if len(before) else after[0])
    right = int(after[0] if len(after) else left)
    share = (step - left) / (right - left) if right > left else 0.0
    value = float(interpolation(window.values[[sensor]], window.observed[[sensor]], np.array([direction]))[0, step])
    contributions = np.zeros(window.values.shape)
    for place, weight in ((left, 1.0 - share), (right, share)):
        reading = window.values[sensor, place]
        contributions[sensor, place] += weight * (value + around(reading - value) if direction else reading)
    return Parts(value, contributions, ()), Method.INTERPOLATION if len(after) else Method.LAST_VALUE


Answers = Callable[[Doubles, Bools], Doubles]  # windows [n, C, T] and their observed cells to values [n] of one cell

_MOST_OCCLUDED = 512  # most readings that are hidden one by one, those nearest to the hole


def of_network(answers: Answers, window: Estimate) -> Parts:
    """The parts of a network's value: its change as each reading is hidden.

    Readings share information, and hiding one of two that agree changes little. So these parts do not add up by
    themselves, and the rest is a part of its own.

    Args:
        answers: the network, for the explained cell.
        window: window of the cell.

    Raises:
        ImputerError: the network fails.
    """
    values, observed = window.values, window.observed
    assert values is not None
    assert observed is not None
    cells = np.argwhere(observed)
    cells = cells[np.argsort(np.abs(cells[:, 1] - window.step), kind="stable")][:_MOST_OCCLUDED]
    hidden = np.repeat(observed[None], len(cells) + 1, axis=0)
    hidden[np.arange(1, len(hidden)), cells[:, 0], cells[:, 1]] = False
    found = answers(np.where(hidden, values, 0.0), hidden)
    if not np.isfinite(found).all():
        raise ImputerError("the network has no value where a reading is hidden")
    contributions = np.zeros(values.shape)
    contributions[cells[:, 0], cells[:, 1]] = found[0] - found[1:]
    return Parts(float(found[0]), contributions, ()).completed(float(found[0]), "not carried by any single reading")
