"""Chooses the method that fills each hole of a group.

A gap of up to `LONGEST_GAP` steps is filled; see `better_by_line` for its cells far from readings. In a
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

from glaim_stream.core.masks import runs
from glaim_stream.core.vocabulary import Method
from glaim_stream.form import Kind, are
from glaim_stream.tables.fitted import SensorFits
from glaim_stream.tables.holes import Holes
from glaim_stream.tables.lines import Lines
from glaim_stream.tables.long_gaps import KNOWN

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]
Codes = NDArray[np.uint8]

_MEAN_OF_NINETY = 0.485  # mean absolute error of a normal distribution, in halves of its 90 % band
_MOST_PLACES = 16  # places of a gap at which the line is tried
_LEAST_ERRORS = 20
_APART = 3  # gap lengths that a series needs for a trial of the line


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

    def methods(self, fitted: SensorFits, line: Lines, missing: Bools) -> Codes:
        """Return the codes of `Method`, uint8 [C, N]; NONE for missing cells that stay null."""
        method = np.where(missing, np.uint8(Method.NONE), np.uint8(Method.OBSERVED))
        method = np.where(self.by_line, line.method, method)
        by_form = np.where(fitted.by_form, fitted.methods, fitted.form_methods)[:, None]
        return np.where(self.by_form, by_form, method).astype(np.uint8)


def choose(fitted: SensorFits, name: str, holes: Holes, line: Lines, mean: Doubles, deviation: Doubles) -> Choice:
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


def _between_meter_readings(fitted: SensorFits, line: Lines) -> Bools:
    """Cells [C, N] of meters between two readings, the later one not smaller.

    Far from both readings a form does not know the total: its answers fall, and jump at the end of the gap.
    """
    return np.asarray(are(fitted.kinds, Kind.METER)[:, None] & (line.method == Method.INTERPOLATION))


def _better_by_line(fitted: SensorFits, values: Doubles, lone: Bools, deviation: Doubles, told: Bools) -> Bools:
    """Cells [C, N] of filled gaps, without readings nearby, that the line fills better."""
    tried = fitted.long_gaps
    width = np.fmax(fitted.form_width, tried.width)
    untried = np.isinf(tried.error)[:, None]  # the trial had too few readings
    expected = np.where(untried, np.inf, deviation * np.where(untried, 1.0, width[:, None]) * _MEAN_OF_NINETY)
    return better_by_line(values, lone, expected, told & ~tried.hopeless[:, None])


def _gaps_with(cells: Bools, observed: Bools) -> Bools:
    """Cells [C, N] of the gaps that contain any of these cells."""
    out = np.zeros_like(cells)
    for sensor in np.flatnonzero(cells.any(axis=1)):
        for first, end in runs(~observed[sensor]):
            out[sensor, first:end] = cells[sensor, first:end].any()
    return out


def better_by_line(values: Doubles, far: Bools, expected: Doubles, told: Bools) -> Bools:
    """Choose the far cells [C, N] of gaps where the line has the smaller expected mean error.

    Where a window has no reading of the sensor, the form returns to the sensor's usual level, however slowly the sensor
    moves: in simulated tables whose last 45 readings of a slow sensor were missing, it had 5 times the error of the
    last value. So the error that the form's deviation implies is compared with the errors of the line across stretches
    as long as the gap.

    Args:
        values: float64 [C, N], readings in sensor units; NaN where missing.
        far: bool [C, N], missing cells too far from readings of their sensor.
        expected: float64 [C, N], absolute errors that the form expects in far cells.
        told: bool [C, N], cells that stay with the form if there are too few readings to try the line.
    """
    out = np.zeros(far.shape, np.bool_)
    for sensor in np.flatnonzero(far.any(axis=1)):
        row = values[sensor]
        tried: dict[tuple[int, bool, int], float] = {}
        for first, end in runs(np.isnan(row)):
            gap = slice(first, end)
            cells = far[sensor, gap]
            if not cells.any():
                continue
            between = bool(first > 0 and end < len(row))
            nearest = int(np.flatnonzero(cells)[0] if first else np.flatnonzero(cells[::-1])[0]) + 1
            key = (int(end - first), between, nearest)
            if key not in tried:
                tried[key] = _error(row, *key)
            line, form = tried[key], float(expected[sensor, gap][cells].mean())
            out[sensor, gap] = cells & (~told[sensor, gap] if np.isnan(line) else line < form)
    return out


def _error(row: Doubles, length: int, between: bool, nearest: int) -> float:
    """Mean absolute error of lines across stretches of a row [N], at places like a gap's far ones; NaN if unknown.

    Args:
        row: float64 [N], readings; NaN where missing.
        length: length of the gap in steps.
        between: True if the gap has readings on both sides.
        nearest: steps from the reading before the gap to the first far cell.
    """
    if len(row) < _APART * length:
        return np.nan
    last = length + 1 - nearest if between else length
    places = np.unique(np.linspace(nearest, last, _MOST_PLACES).astype(np.int64)).tolist()
    errors = np.concatenate([_errors(row, length + 1 if between else 0, place) for place in places])
    return float(errors.mean()) if len(errors) >= _LEAST_ERRORS else np.nan


def _errors(row: Doubles, across: int, place: int) -> Doubles:
    """Absolute errors, `place` steps after a reading, of lines across `across` steps; 0: of the last value."""
    if not across:
        errors = np.abs(row[place:] - row[:-place])
    else:
        starts, ends = row[:-across], row[across:]
        errors = np.abs(row[place : place - across] - starts - (ends - starts) * (place / across))
    return np.asarray(errors[~np.isnan(errors)], np.float64)
