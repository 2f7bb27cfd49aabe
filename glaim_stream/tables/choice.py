"""Chooses the method that fills each hole of a group.

A gap of up to `LONGEST_GAP` steps is filled; see `better_by_line` for its cells far from readings.

A longer gap gets one method, so that its values do not jump from one to another. The closed form fills it if it was
clearly better than line and last value on long hidden stretches, and promises a smaller error than they have across
stretches as long as the gap. Otherwise the better of the two fills it. Its error must be well below that of the
sensor's mean, or the gap stays null, since its values would be the sensor's mean in disguise. No value differs from
its neighbour by more than the sensor's own steps. A meter that was not reset in the gap follows the line. A stated
longest gap replaces these conditions: gaps of up to this length are filled in full, and longer ones stay empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.masks import runs
from glaim_stream.core.vocabulary import Method
from glaim_stream.form import Kind, are, differences
from glaim_stream.tables.fitted import SensorFits
from glaim_stream.tables.holes import Holes
from glaim_stream.tables.lines import DRAWN, Lines, errors_across
from glaim_stream.tables.long_gaps import KNOWN

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]
Codes = NDArray[np.uint8]

_MEAN_OF_NINETY = 0.485  # mean absolute error of a normal distribution, in halves of its 90 % band
_CLEARLY = 0.95  # share of the line's error that the last value's must not exceed, since it jumps at the end of a gap


@dataclass(frozen=True, slots=True)
class Choice:
    """The holes that are filled, by method, all bool [C, N].

    by_form: holes that the form fills.
    by_line: holes that the line between readings fills.
    line: lines of the group; in some long gaps they are the last value.
    climbing: holes of `by_line` in meters between two readings of the same run, where the rules of long gaps apply.
    """

    by_form: Bools
    by_line: Bools
    climbing: Bools
    line: Lines

    @property
    def filled(self) -> Bools:
        """Holes that are filled."""
        return self.by_form | self.by_line

    def methods(self, fitted: SensorFits, missing: Bools) -> Codes:
        """Return the codes of `Method`, uint8 [C, N]; NONE for missing cells that stay null."""
        method = np.where(missing, np.uint8(Method.NONE), np.uint8(Method.OBSERVED))
        method = np.where(self.by_line, self.line.method, method)
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
    missing, short = holes.missing, holes.short & ~holes.long
    known: Bools = np.isfinite(mean)
    with np.errstate(invalid="ignore"):
        told = known & (deviation < KNOWN * fitted.spread[:, None])
    usual = fitted.by_form_in(name)[:, None]
    lone = missing & known & short & usual & fitted.silent_windows(holes.distance)
    steady = np.where(short, _gaps_with(lone, holes.observed), holes.long)
    climbing = _between_meter_readings(fitted, line) & steady
    drawn = np.isfinite(line.values)
    expected = deviation * fitted.form_width[:, None] * _MEAN_OF_NINETY
    chosen = usual & ~better_by_line(holes.values, lone, expected, told)
    able = known & ~np.array([(name, sensor) in fitted.by_line for sensor in fitted.sensors], np.bool_)[:, None]
    long_by_form, long_by_line, line = _long(fitted, holes, line, able & ~climbing, mean, deviation)
    by_form: Bools = missing & ~climbing & (long_by_form | (short & known & (chosen | ~drawn)))
    by_line: Bools = missing & drawn & ~by_form & (short | climbing | long_by_line)
    return Choice(by_form, by_line, climbing & by_line, line)


def _long(
    fitted: SensorFits, holes: Holes, line: Lines, able: Bools, mean: Doubles, deviation: Doubles
) -> tuple[Bools, Bools, Lines]:
    """Choose one method for each long gap.

    Args:
        fitted: fit of the sensors.
        holes: holes of the group.
        line: lines of the group.
        able: bool [C, N], cells that the form may fill.
        mean: float64 [C, N], answers of the form.
        deviation: float64 [C, N], deviations of the form's answers.

    Returns:
        Cells [C, N] that the form and the line fill, and the lines, which are the last value in some gaps.
    """
    by_form, by_line = np.zeros_like(holes.missing), np.zeros_like(holes.missing)
    drawn, method, scale = line.values.copy(), line.method.copy(), line.scale.copy()
    tried = fitted.long_gaps
    formless = are(fitted.kinds, None, *DRAWN) | tried.worse
    for sensor in np.flatnonzero(holes.long.any(axis=1)):
        row, kind = holes.values[sensor], fitted.kinds[sensor]
        usual = _error_of_mean(row, kind)
        errors: dict[tuple[int, bool], tuple[float, float]] = {}
        for first, end in runs(np.isnan(row)):
            gap = slice(first, end)
            cells = holes.long[sensor, gap]
            if not cells.any():
                continue
            between = bool(first > 0 and end < len(row))
            key = (int(end - first), between)
            if key not in errors:
                errors[key] = (_error(row, key[0], kind, True), _error(row, key[0], kind, False))
            straight, flat = errors[key]
            simple = straight if between else flat
            bent = line.method[sensor, first] == Method.INTERPOLATION and kind is not Kind.METER
            last = np.full_like(row, row[first - 1])
            if between and bent and flat < _CLEARLY * straight and _smooth(row, last, first, end):
                drawn[sensor, gap], method[sensor, gap], simple = last[gap], np.uint8(Method.LAST_VALUE), flat
                scale[sensor, gap] = np.sqrt(np.arange(1, end - first + 1))
            expected = _expected(fitted, sensor, deviation[sensor, gap][cells])
            form = bool(not formless[sensor] and able[sensor, gap][cells].all() and not expected >= simple)
            form = form and _smooth(row, mean[sensor], first, end)
            if holes.stated or (expected if form else simple) < KNOWN * usual:
                (by_form if form else by_line)[sensor, gap] = cells
    return by_form, by_line, Lines(drawn, method, scale)


def _expected(fitted: SensorFits, sensor: np.intp, deviation: Doubles) -> float:
    """Mean absolute error that a form expects in a gap with these deviations [n]."""
    tried = fitted.long_gaps
    if np.isfinite(tried.error[sensor]):
        return float(deviation.mean() * tried.error[sensor] / tried.deviation[sensor])
    return float(deviation.mean() * fitted.form_width[sensor] * _MEAN_OF_NINETY)


def _error_of_mean(row: Doubles, kind: Kind | None) -> float:
    """Mean absolute error of the mean of a row [N]."""
    readings = row[~np.isnan(row)]
    if not len(readings):
        return np.nan
    mean = readings.mean()
    if kind is Kind.ANGLE:
        turns = np.exp(1j * np.deg2rad(readings)).mean()
        mean = np.rad2deg(np.angle(turns))
    return float(np.abs(differences([kind], np.full((1, len(readings)), mean), readings[None])).mean())


def _smooth(row: Doubles, filled: Doubles, first: int, end: int) -> bool:
    """Whether a row [N] with a filled gap has no step there that is longer than those between its readings."""
    whole = np.where(np.isnan(row), filled, row)[max(0, first - 1) : end + 1]
    steps = np.abs(np.diff(row))
    return bool(np.nanmax(np.abs(np.diff(whole)), initial=0.0) <= np.max(steps[~np.isnan(steps)], initial=0.0))


def _between_meter_readings(fitted: SensorFits, line: Lines) -> Bools:
    """Cells [C, N] of meters between two readings, the later one not smaller.

    Far from both readings a form does not know the total: its answers fall, and jump at the end of the gap.
    """
    return np.asarray(are(fitted.kinds, Kind.METER)[:, None] & (line.method == Method.INTERPOLATION))


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
                tried[key] = _error(row, key[0], None, *key[1:])
            line, form = tried[key], float(expected[sensor, gap][cells].mean())
            out[sensor, gap] = cells & (~told[sensor, gap] if np.isnan(line) else line < form)
    return out


def _error(row: Doubles, length: int, kind: Kind | None, between: bool, nearest: int = 1) -> float:
    """Mean absolute error of lines across stretches of a row; NaN if unknown. See `errors_across`."""
    errors, _ = errors_across(row, length, kind, between=between, nearest=nearest)
    return float(errors.mean()) if len(errors) else np.nan
