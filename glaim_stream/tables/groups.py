"""Series of groups on an even grid, with and without their holes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import Method
from glaim_stream.form import LARGEST, ClosedForm, Kind, Report
from glaim_stream.health import doubtful_cells

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Codes = NDArray[np.uint8]
Bools = NDArray[np.bool_]


class Form(Protocol):
    """A closed form or a network that fills windows of C sensors."""

    @property
    def sensors(self) -> tuple[str, ...]:
        """Names of the C sensors."""

    @property
    def steps(self) -> int:
        """T, the steps of a window."""

    @property
    def step_ms(self) -> int:
        """Time between two steps."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kind of each sensor."""

    def fill(self, values: Doubles, observed: NDArray[np.bool_], end_ms: Ints) -> Answers:
        """Fill windows [n, C, T]; see ClosedForm."""


class Answers(Protocol):
    """Means and deviations float64 [n, C, T]."""

    @property
    def mean(self) -> Doubles:
        """Expected values."""

    @property
    def deviation(self) -> Doubles:
        """Their standard deviations."""


Progress = Callable[[int, int], object]  # numbers of finished and of all parts


@dataclass(frozen=True)
class Group:
    """The series of one group.

    times_ms: int64 [N], even and ascending.
    values: float64 [C, N], sensor units; NaN = missing.
    doubted: bool [C, N], readings that are kept and not used; None: there are none.
    """

    name: str
    times_ms: Ints
    values: Doubles
    doubted: Bools | None = None

    @property
    def doubts(self) -> Bools:
        """Readings that are not used, bool [C, N]."""
        return np.zeros(self.values.shape, np.bool_) if self.doubted is None else self.doubted

    @property
    def believed(self) -> Doubles:
        """Readings from which holes are filled, float64 [C, N]; NaN elsewhere."""
        return np.where(self.doubts, np.nan, usable(self.values))

    def judged(self) -> Self:
        """Return the group with further doubtful readings marked; see `glaim_stream.health.doubtful_series`."""
        values = np.where(self.doubts, np.nan, usable(self.values))
        observed, every = ~np.isnan(values), np.ones(len(values), np.bool_)
        (doubted,) = doubtful_cells(values[None], observed[None], every)
        return replace(self, doubted=doubted | self.doubts)


def usable(values: Doubles) -> Doubles:
    """Return the readings; NaN for infinite ones and those with infinite squares."""
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(values) < LARGEST, values, np.nan)


# Takes groups and the names of their sensors, plain numbers alone; returns None if the closed form is better.
Trainer = Callable[[Sequence[Group], Sequence[str]], Form | None]


@dataclass(frozen=True)
class FilledGroup:
    """A group after the fill.

    values: float64 [C, N]; observed cells keep their bits; NaN where left null.
    lower, upper: float64 [C, N], the 90 % band; the value itself where observed, NaN where unknown.
    method: uint8 [C, N], codes of `Method`; NONE where left null.
    left: number of holes that were left null, by reason.
    doubted: bool [C, N], readings that are kept and not used.
    """

    name: str
    values: Doubles
    lower: Doubles
    upper: Doubles
    method: Codes
    left: dict[str, int]
    doubted: Bools

    @classmethod
    def of(cls, group: Group, holes: Mapping[str, NDArray[Any]]) -> Self:
        """Put the filled holes of a group among its readings.

        Args:
            group: group before the fill.
            holes: the fields of this class in the holes alone, row by row; `left` as bytes of JSON.
        """
        missing = np.isnan(group.values)
        values, lower, upper = (group.values.copy() for _ in range(3))
        method = np.full(values.shape, Method.OBSERVED, np.uint8)
        for array, name in ((values, "values"), (lower, "lower"), (upper, "upper"), (method, "method")):
            array[missing] = holes[name]
        return cls(group.name, values, lower, upper, method, json.loads(holes["left"].tobytes()), group.doubts)


@dataclass(frozen=True)
class Result:
    """Filled groups, with the forms and errors of the fit.

    form: the closed form; None if none could be fitted or each of several clusters of sensors has its own.
    report: report on the fit of `form`; None if the form was given or there is no single one.
    expected_error: mean absolute error of the chosen method by sensor, at cells that were hidden on purpose.
    line_error: mean absolute error of interpolation by sensor, at the same cells.
    long_gap_error: mean absolute errors of the fill and of the sensor's mean in gaps of more than the usual length, by
        sensor that is filled there.
    hidden: number of hidden cells by sensor.
    refused: reason why there is no form; empty if there is one.
    forms: all closed forms.
    chosen: name of each sensor's method: `model`, `gaussian`, `last_value` or `interpolation`.
    """

    form: ClosedForm | None
    report: Report | None
    groups: tuple[FilledGroup, ...]
    expected_error: dict[str, float]
    line_error: dict[str, float] = field(default_factory=dict)
    hidden: dict[str, int] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)
    refused: str = ""
    forms: tuple[Form, ...] = ()
    long_gap_error: dict[str, tuple[float, float]] = field(default_factory=dict)
