"""Chooses the method that fills each hole of a group.

A gap of up to `LONGEST_GAP` steps is filled; see `glaim_stream.tables.far_cells` for its cells far from readings. In a
longer gap the closed form fills only cells that the other sensors, or readings nearby, determine: its deviation there
must be well below that of the sensor's readings. Far from readings, a trial of such gaps must also have shown errors
well below those of the sensor's mean. The other cells stay null, since a value there would be the sensor's mean in
disguise. A meter that was not reset in the gap follows the line between its two readings. A stated longest gap
replaces the rules of longer gaps: gaps of up to this length are filled in full, and longer ones stay empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import Method
from glaim_stream.form import Kind, are
from glaim_stream.tables.far_cells import better_by_line
from glaim_stream.tables.fitted import Fitted
from glaim_stream.tables.holes import Holes
from glaim_stream.tables.lines import Lines, runs
from glaim_stream.tables.long_gaps import KNOWN

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]
Codes = NDArray[np.uint8]

_MEAN_OF_NINETY = 0.485  # mean absolute error of a normal distribution, in halves of its 90 % band


@dataclass(frozen=True, slots=True)
class Choice:
    """The holes that are filled, by method, all bool [C, N].

    by_form: holes that the form fills.
    by_line: holes that the line between readings fills.
    climbing: holes of `by_line` in meters between two readings of the same run, where the rules of long gaps apply.
    """

    by_form: Bools
    by_line: Bools
    climbing: Bools

    @property
    def filled(self) -> Bools:
        """Holes that are filled."""
        return self.by_form | self.by_line

    def methods(self, fitted: Fitted, line: Lines, missing: Bools) -> Codes:
        """Return the codes of `Method`, uint8 [C, N]; NONE for missing cells that stay null."""
        method = np.where(missing, np.uint8(Method.NONE), np.uint8(Method.OBSERVED))
        method = np.where(self.by_line, line.method, method)
        by_form = np.where(fitted.by_form, fitted.methods, fitted.form_methods)[:, None]
        return np.where(self.by_form, by_form, method).astype(np.uint8)


def choose(fitted: Fitted, name: str, holes: Holes, line: Lines, mean: Doubles, deviation: Doubles) -> Choice:
    """Choose the method of each hole.

    Args:
        fitted: fit of the sensors.
        name: name of the group.
        holes: holes of the group.
        line: lines of the group.
        mean: float64 [C, N], answers of the form; NaN where it has none.
        deviation: float64 [C, N], deviations of the answers.
    """
    missing, short = holes.missing, holes.short
    known: Bools = np.isfinite(mean)
    with np.errstate(invalid="ignore"):
        told = known & (deviation < KNOWN * fitted.spread[:, None])
    usual = fitted.by_form_in(name)[:, None]
    lone = missing & known & short & usual & fitted.silent_windows(holes.distance)
    steady = np.where(short, _gaps_with(lone, holes.observed), not holes.stated)
    climbing = _between_meter_readings(fitted, line) & steady
    drawn = np.isfinite(line.values) & (short | climbing)
    chosen = usual & ~_better_by_line(fitted, holes.values, lone, deviation, told)
    told &= ~(holes.far(fitted.long_gaps) & fitted.long_gaps.hopeless[:, None]) & (not holes.stated)
    by_form: Bools = known & np.where(short, chosen | ~drawn, told) & ~climbing & missing
    by_line: Bools = missing & drawn & ~by_form
    return Choice(by_form, by_line, climbing & by_line)


def _between_meter_readings(fitted: Fitted, line: Lines) -> Bools:
    """Cells [C, N] of meters between two readings, the later one not smaller.

    Far from both readings a form does not know the total: its answers fall, and jump at the end of the gap.
    """
    return np.asarray(are(fitted.kinds, Kind.METER)[:, None] & (line.method == Method.INTERPOLATION))


def _better_by_line(fitted: Fitted, values: Doubles, lone: Bools, deviation: Doubles, told: Bools) -> Bools:
    """Cells [C, N] of filled gaps, without readings nearby, that the line fills better."""
    tried = fitted.long_gaps
    width = np.fmax(fitted.form_width, tried.width)
    width = np.where(np.isinf(tried.error), np.inf, width)  # the trial had too few readings
    return better_by_line(values, lone, deviation * width[:, None] * _MEAN_OF_NINETY, told & ~tried.hopeless[:, None])


def _gaps_with(cells: Bools, observed: Bools) -> Bools:
    """Cells [C, N] of the gaps that contain any of these cells."""
    out = np.zeros_like(cells)
    for sensor in np.flatnonzero(cells.any(axis=1)):
        for first, end in zip(*runs(~observed[sensor]), strict=True):
            out[sensor, first:end] = cells[sensor, first:end].any()
    return out
