"""The fit of C sensors, from which their holes are filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import METHODS, Method
from glaim_stream.form import Kind, Limits, Report, are
from glaim_stream.tables.central import answers_of_all
from glaim_stream.tables.groups import Form
from glaim_stream.tables.long_gaps import LongGaps, continued

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class SensorFits:
    """The fit of C sensors.

    step_ms: step of the series; None where no group has two steps.
    forms: forms of clusters of sensors, usually one. A later form fills the sensors that it shares with an earlier one.
    trained: bool [C], sensors that a network fills.
    report: report on the fit of a single form.
    refused: reason why there is no form; empty if there is one.
    by_form: bool [C], sensors that the form fills.
    by_line: names of groups and sensors of `by_form` that the line fills there, because they have another unit.
    limits: limits that filled values respect.
    spread: float64 [C], deviation of each sensor's readings around their mean.
    form_width: float64 [C], half of the 90 % band in deviations of the form.
    nearest: float64 [C], least distance of hidden cells from a reading of the sensor in steps; 0 if none was hidden.
    near_form: float64 [C], half of the form's least 90 % band in cells nearer than `nearest`, in the group's units.
    near_line: float64 [C], constant part of half of interpolation's band in such cells, in the group's units.
    line_width: float64 [C], half of the 90 % band of interpolation, in the scales of `Lines` and the group's units.
    moving_width: float64 [C], half of that band between two different readings, if that is wider.
    common_units: float64 [C], NaN if the groups' units are 1 since they move alike; see `glaim_stream.tables.units`.
    form_error, line_errors: float64 [C], mean absolute errors at hidden cells; NaN without one.
    cells: int64 [C], number of hidden cells.
    long_gaps: trial of gaps of more than `LONGEST_GAP` steps.
    """

    sensors: tuple[str, ...]
    step_ms: int | None
    forms: tuple[Form, ...]
    report: Report | None
    refused: str
    by_form: Bools
    by_line: frozenset[tuple[str, str]]
    limits: Limits
    spread: Doubles
    form_width: Doubles
    nearest: Doubles
    near_form: Doubles
    near_line: Doubles
    line_width: Doubles
    moving_width: Doubles
    common_units: Doubles
    form_error: Doubles
    line_errors: Doubles
    cells: Ints
    trained: Bools
    long_gaps: LongGaps

    @property
    def expected_error(self) -> dict[str, float]:
        """Mean absolute error of the chosen method by sensor, for sensors with hidden cells."""
        chosen = np.where(self.by_form, self.form_error, self.line_errors)
        return {name: float(error) for name, error in zip(self.sensors, chosen, strict=True) if np.isfinite(error)}

    @property
    def line_error(self) -> dict[str, float]:
        """Mean absolute error of interpolation by sensor, for sensors with hidden cells."""
        return {
            name: float(error) for name, error in zip(self.sensors, self.line_errors, strict=True) if np.isfinite(error)
        }

    @property
    def long_gap_error(self) -> dict[str, tuple[float, float]]:
        """Mean absolute errors of the fill and of the sensor's mean in long gaps, for sensors that are filled there."""
        expected = self.long_gaps.expected
        return {
            self.sensors[place]: (float(expected[place]), float(self.long_gaps.usual[place]))
            for place in np.flatnonzero(np.isfinite(expected))
        }

    @property
    def hidden(self) -> dict[str, int]:
        """Number of hidden cells by sensor."""
        return dict(zip(self.sensors, self.cells.tolist(), strict=True))

    @property
    def chosen(self) -> dict[str, str]:
        """Name of each sensor's usual method."""
        return {name: METHODS[code] for name, code in zip(self.sensors, self.methods.tolist(), strict=True)}

    @property
    def methods(self) -> NDArray[np.uint8]:
        """Code of each sensor's usual method, uint8 [C]."""
        line = np.where(are(self.kinds, Kind.STATE), np.uint8(Method.LAST_VALUE), np.uint8(Method.INTERPOLATION))
        return np.where(self.by_form, self.form_methods, line)

    @property
    def form_methods(self) -> NDArray[np.uint8]:
        """Code of the form of each sensor, uint8 [C]."""
        return np.where(self.trained, np.uint8(Method.MODEL), np.uint8(Method.GAUSSIAN))

    @cached_property
    def kinds(self) -> tuple[Kind | None, ...]:
        """Kinds of the C sensors; None for sensors without a form."""
        return kinds_of(self.forms, self.sensors)

    def by_form_in(self, group: str) -> Bools:
        """Sensors that the form fills in a group, bool [C]."""
        return self.by_form & np.array([(group, sensor) not in self.by_line for sensor in self.sensors], np.bool_)

    def silent_windows(self, distance: Doubles) -> Bools:
        """Cells [C, N] more than half a window from readings, so that a form's window may hold none of them."""
        return np.asarray(distance > max((form.steps for form in self.forms), default=0) // 2)

    def answers(self, values: Doubles, start_ms: int, wanted: Bools, long: Bools) -> tuple[Doubles, Doubles]:
        """Return means and deviations [C, N] of the forms in wanted cells; NaN elsewhere and where a form declines.

        Args:
            values: float64 [C, N], sensor units; NaN where missing.
            start_ms: time of the first step.
            wanted: bool [C, N], cells to answer.
            long: bool [C, N], those of long gaps.
        """
        moved = long & (self.long_gaps.anchored == 1)[:, None]
        mean, deviation = answers_of_all(self.forms, self.sensors, values, start_ms, wanted & ~moved)
        if not moved.any():
            return mean, deviation
        beside = continued(self.forms, self.sensors, values, start_ms, moved)
        return np.where(moved, beside[0], mean), np.where(moved, beside[1], deviation)


def kinds_of(forms: Sequence[Form], sensors: Sequence[str]) -> tuple[Kind | None, ...]:
    """Kinds of sensors; None for sensors without a form."""
    known = {name: kind for form in forms for name, kind in zip(form.sensors, form.kinds, strict=True)}
    return tuple(known.get(name) for name in sensors)
