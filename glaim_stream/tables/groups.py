"""Series of groups on an even grid, with and without their holes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form import LARGEST, ClosedForm, Kind, Report
from glaim_stream.health import doubtful_cells

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Codes = NDArray[np.uint8]
Bools = NDArray[np.bool_]


class Form(Protocol):
    """What fills windows of C sensors: a closed form, or a network."""

    @property
    def sensors(self) -> tuple[str, ...]:
        """Names of the C sensors."""

    @property
    def steps(self) -> int:
        """T, of a window."""

    @property
    def step_ms(self) -> int:
        """Distance of two steps."""

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


Progress = Callable[[str, int, int], object]  # what is done, the number of parts done, and of all parts


@dataclass(frozen=True)
class Group:
    """The series of one group.

    times_ms: int64 [N], even and ascending.
    values: float64 [C, N], sensor units; NaN = missing.
    doubted: bool [C, N], readings that are kept and used for nothing; None: there are none.
    """

    name: str
    times_ms: Ints
    values: Doubles
    doubted: Bools | None = None

    @property
    def doubts(self) -> Bools:
        """Readings that are used for nothing, bool [C, N]."""
        return np.zeros(self.values.shape, np.bool_) if self.doubted is None else self.doubted

    @property
    def believed(self) -> Doubles:
        """The readings from which others are filled, float64 [C, N]; NaN elsewhere."""
        return np.where(self.doubts, np.nan, usable(self.values))

    def judged(self) -> Self:
        """Return the group with its doubtful readings marked; see `glaim_stream.health.doubtful_series`."""
        values = usable(self.values)
        observed, every = ~np.isnan(values), np.ones(len(values), np.bool_)
        (doubted,) = doubtful_cells(values[None], observed[None], every)
        return replace(self, doubted=doubted)


def usable(values: Doubles) -> Doubles:
    """Return the readings; NaN for infinite ones, and for those whose squares would be infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(values) < LARGEST, values, np.nan)


# Trains on groups of the named sensors, which have readings of plain numbers; None where the closed form is better.
Trainer = Callable[[Sequence[Group], Sequence[str]], Form | None]


@dataclass(frozen=True)
class FilledGroup:
    """A group after the fill.

    values: float64 [C, N]; observed cells keep their bits; NaN where left null.
    lower, upper: float64 [C, N], the 90 % band; the value itself where observed, NaN where it is unknown.
    method: uint8 [C, N], codes of `Method`; NONE where left null.
    left: number of holes that were left null, by reason.
    doubted: bool [C, N], as in Group.
    """

    name: str
    values: Doubles
    lower: Doubles
    upper: Doubles
    method: Codes
    left: dict[str, int]
    doubted: Bools


@dataclass(frozen=True)
class Result:
    """Filled groups, and what is known about the fill.

    form: the closed form; None where none could be fitted, and where each of several clusters of sensors has its own.
    report: of the fit of the form; None where a form was given, or there is no single one.
    expected_error: mean absolute error of the chosen method by sensor, at cells that were hidden on purpose.
    line_error: that of interpolation at the same cells.
    long_gap_error: the same of the forms in gaps longer than are filled as a rule, and that of the sensor's mean there,
        by sensor that is filled in them.
    hidden: number of these cells by sensor.
    refused: why there is no form; empty where there is one.
    forms: all closed forms.
    chosen: name of the method that fills each sensor's holes: `model`, `gaussian`, `last_value` or `interpolation`.
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
