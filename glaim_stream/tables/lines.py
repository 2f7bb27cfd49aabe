"""Lines between readings over whole series, and their distance from readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.angles import around
from glaim_stream.core.masks import runs
from glaim_stream.core.vocabulary import Method
from glaim_stream.form import Kind, are, differences, distances, resets, simple_value

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Codes = NDArray[np.uint8]

_FEW, _FEWEST = 2, 10  # stamps; readings, whose errors tell a band
_SEVERAL = 2  # readings of a stamp
DRAWN = (Kind.STATE, Kind.ANGLE, Kind.CARRIED)  # the form has the values of `lines`
_MOST_PLACES = 16  # places of a gap at which the line is tried
_LEAST_ERRORS = 20
_APART = 3  # gap lengths that a series needs for a trial of the line: errors within one stretch are correlated


@dataclass(frozen=True)
class Lines:
    """Lines between the readings of C series of N steps, all arrays [C, N].

    values: values of the lines; NaN for a series without a reading.
    method: INTERPOLATION between two readings; LAST_VALUE before the first and after the last one, for states, and
        across a meter's reset; NONE without any.
    scale: deviation of a random walk of steps of deviation 1 from the line; 0 at readings, infinite without any and
        across a reset.
    """

    values: Doubles
    method: Codes
    scale: Doubles


def lines(values: Doubles, observed: Bools, kinds: Sequence[Kind | None]) -> Lines:
    """Draw lines, or their counterparts for the sensors' kinds.

    Args:
        values: float64 [C, N], readings; ignored where not observed.
        observed: bool [C, N], cells with a reading.
        kinds: kinds of the C sensors; None: unknown, treated as a number.
    """
    left, right = distances(observed)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = left * right / (left + right)
        scale = np.sqrt(np.where(np.isfinite(left) & np.isfinite(right), between, np.minimum(left, right)))
    scale = np.where(observed, 0.0, scale)
    both = np.isfinite(left) & np.isfinite(right)
    some = np.isfinite(left) | np.isfinite(right)
    method = np.where(both, np.uint8(Method.INTERPOLATION), np.uint8(Method.LAST_VALUE))
    method = np.where(some, method, np.uint8(Method.NONE))
    known = np.where(observed, values, 0.0)
    reset = are(kinds, Kind.METER)[:, None] & resets(known, observed)
    kept = some & (reset | are(kinds, Kind.STATE)[:, None])
    method, scale = np.where(kept, np.uint8(Method.LAST_VALUE), method), np.where(reset, np.inf, scale)
    return Lines(simple_value(kinds, known, observed), method, scale)


def spread(times_ms: Ints, read: Bools) -> Doubles:
    """Times of rows in order; those of a stamp are spread up to the next one, if most stamps have several readings.

    Args:
        times_ms: int64 [rows], ascending.
        read: bool [rows], rows with a reading.
    """
    stamps, stamp, rows = np.unique(times_ms, return_inverse=True, return_counts=True)
    if len(stamps) < _FEW or np.median(np.bincount(stamp[read], minlength=len(stamps))) < _SEVERAL:
        return times_ms.astype(np.float64)
    length = np.diff(stamps, append=2 * stamps[-1] - stamps[-2])
    nth = np.arange(len(times_ms)) - np.searchsorted(times_ms, times_ms)
    return np.asarray(times_ms + length[stamp] * nth / rows[stamp])


def at_times(times: Doubles, values: Doubles, wanted: Doubles, kind: Kind | None) -> tuple[Doubles, Doubles]:
    """Return the values between two readings at moments off the steps, and half of their 90 % band.

    The band is the error of the same rule at the readings, each from its two neighbours. A state or an angle gets the
    nearer reading, a meter across a reset the last one. NaN beside the readings, at their times, and with less
    than 10.

    Args:
        times: float64 [readings], ascending.
        values: float64 [readings].
        wanted: float64 [n], moments.
        kind: kind of the sensor; None: a number.
    """
    times, first = np.unique(times, return_index=True)
    values = values[first]
    after = np.searchsorted(times, wanted)
    inside = (after > 0) & (after < len(times)) & (len(times) >= _FEWEST)
    inside[inside] = times[after[inside]] != wanted[inside]
    out, half = np.full(len(wanted), np.nan), np.full(len(wanted), np.nan)
    if inside.any():
        sides = times[after[inside] - 1], times[after[inside]], values[after[inside] - 1], values[after[inside]]
        out[inside] = _on_line(*sides, wanted[inside], kind)
        tried = _on_line(times[:-2], times[2:], values[:-2], values[2:], times[1:-1], kind)
        half[inside] = np.quantile(np.abs(differences([kind], tried[None], values[None, 1:-1])), 0.9)
    return out, half


def _on_line(
    start: Doubles, end: Doubles, before: Doubles, after: Doubles, wanted: Doubles, kind: Kind | None
) -> Doubles:
    share = (wanted - start) / (end - start)
    if kind in (Kind.STATE, Kind.ANGLE):
        return np.where(share <= 0.5, before, after)
    line = before + share * (after - before)
    return np.where(after < before, before, line) if kind is Kind.METER else line


def gap_lengths(missing: Bools) -> Ints:
    """Length of the run of missing cells in which each cell [C, N] lies; 0 elsewhere."""
    out = np.zeros(missing.shape, np.int64)
    for sensor, row in enumerate(missing):
        lengths = np.diff(runs(row)).ravel()
        out[sensor, row] = np.repeat(lengths, lengths)
    return out


def errors_across(
    row: Doubles, length: int, kind: Kind | None, *, between: bool, nearest: int = 1
) -> tuple[Doubles, Doubles]:
    """Return absolute errors of lines across stretches of a row as long as a gap, and their scales, both [n].

    Both are empty if there are too few readings. Across a reset of a meter there is no line.

    Args:
        row: float64 [N], readings; NaN where missing.
        length: length of the gap in steps.
        kind: kind of the sensor. A state, or a gap that is not `between` readings, has the last value.
        between: True if the gap has readings on both sides.
        nearest: steps from the reading before the gap to the first cell that counts.
    """
    errors, scales = [np.empty(0)], [np.empty(0)]
    across, bent = length + 1, kind is Kind.ANGLE
    if len(row) >= _APART * length:
        last = across - nearest if between else length
        for place in np.unique(np.linspace(nearest, last, _MOST_PLACES).astype(np.int64)).tolist():
            if between:
                start, here, apart = row[:-across], row[place : place - across], row[across:] - row[:-across]
                apart = around(apart) if bent else apart
                drawn = np.zeros(1) if kind is Kind.STATE else apart * (place / across)
                usable = ~np.isnan(apart) & ((kind is not Kind.METER) | (apart >= 0.0))
            else:
                start, here, drawn, usable = row[:-place], row[place:], np.zeros(1), np.ones(1, np.bool_)
            error = here - start - drawn
            error = np.abs(around(error) if bent else error)
            error = error[~np.isnan(error) & usable]
            errors.append(error)
            scales.append(np.full(len(error), np.sqrt(place * (across - place) / across if between else place)))
    out = np.concatenate(errors), np.concatenate(scales)
    return out if len(out[0]) >= _LEAST_ERRORS else (errors[0], scales[0])
