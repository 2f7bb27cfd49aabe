"""Tries the methods for gaps longer than a window on stretches of readings as long as the gap.

The deviation that a form states holds for windows like those that it was fitted to. In a gap of days a sensor moves
further: on 3,000 rows of weather, estimates of an air pressure that was missing for the last 1,200 rows were wrong by
8.0 mbar, and those of single hidden readings by 0.1. So stretches of the readings of a sensor with such a gap are
hidden, each as long as the gap but at most a sixth of the readings. A form that has not seen them fills them, and so do
the line and the last value. In a second attempt the form is moved so that it meets the readings at both ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.masks import runs
from glaim_stream.form import Kind, Limits, last_value, nearest
from glaim_stream.tables.central import answers_of_all
from glaim_stream.tables.groups import Form, Group
from glaim_stream.tables.lines import gap_lengths, lines

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]

LONGEST_GAP = 48  # steps; gaps of up to this length are filled by default
KNOWN = 0.8  # share of the error of a sensor's mean; a method with a smaller error is informative
_PART = 6  # each hidden stretch has at most 1 / _PART of the readings
_HIDDEN = 4  # all have at most 1 / _HIDDEN of them, if that is more than two stretches
_STRETCHES = 6  # most of them
_LEAST = 20  # hidden cells that a trial needs
_JOIN = 3  # readings at each end of a gap that a form is moved to
_MARGIN = 0.9  # a form must have less than this share of the error of the better of line and last value
_GOLDEN = 0.618  # by multiples of it, the stretches of sensors whose gaps begin apart are moved
_SEED = 20_261
_SHARE = 0.08  # share of a sensor's readings to hide
_LEAST_CELLS = 30  # hidden cells of a sensor, if it has enough readings
_MOVES = 8
_RANDOM_BLOCKS = (1, 1, 1, 2, 4, 8)  # steps


@dataclass(frozen=True)
class LongGaps:
    """Results of the trial for C sensors, float64 [C]; NaN where a sensor had no long gap.

    error: mean absolute error of the forms, sensor units; infinite where there were too few readings to try.
    simple: mean absolute error of the better of line and last value; NaN if the stretches were shorter than the gap.
    ratio: error of the forms there, as a share of that of the better of line and last value: the largest of the shares
        in all cells, divided by 0.9, and in each half of the cells.
    usual: mean absolute error of the sensor's mean at the same cells.
    deviation: mean deviation of the forms there.
    width: half of the 90 % band, in deviations of the forms.
    anchored: 1 if the forms have the smaller error where they meet the readings beside the gap, else 0.
    """

    error: Doubles
    simple: Doubles
    ratio: Doubles
    usual: Doubles
    deviation: Doubles
    width: Doubles
    anchored: Doubles

    @classmethod
    def untried(cls, sensors: int) -> LongGaps:
        """Results for a table without long gaps."""
        return cls(*(np.full(sensors, np.nan) for _ in fields(cls)))

    @property
    def expected(self) -> Doubles:
        """Mean absolute error [C] of the method that fills; NaN where it is uninformative, or was not measured."""
        error = np.where(self.worse, self.simple, self.error)
        with np.errstate(invalid="ignore"):
            return np.where(error < KNOWN * self.usual, error, np.nan)

    @property
    def worse(self) -> Bools:
        """Sensors [C] whose forms are not clearly better than line and last value, or were not measured."""
        with np.errstate(invalid="ignore"):
            return np.isinf(self.error) | (self.ratio >= 1.0)


def long_cells(group: Group) -> Bools:
    """Readings [C, N] to hide for the trial on long gaps.

    A gap at an end of the table is tried at both ends. Other stretches lie between readings. Sensors whose longest gaps
    begin together lose the same stretches.
    """
    believed = group.believed
    hidden = np.zeros(believed.shape, np.bool_)
    lengths = gap_lengths(np.isnan(believed))
    for sensor in np.flatnonzero(lengths.max(axis=1, initial=0) > LONGEST_GAP):
        longest = int(lengths[sensor].max())
        readings = np.flatnonzero(~np.isnan(believed[sensor]))
        length = min(longest, len(readings) // _PART)
        if not length:
            continue
        count = int(np.clip(len(readings) // (_HIDDEN * length), 2, _STRETCHES))
        phase = (int(lengths[sensor].argmax()) // LONGEST_GAP * _GOLDEN) % 1.0
        shares = (np.arange(count) + 0.25 + 0.5 * phase) / count
        if max(lengths[sensor, [0, -1]]) > LONGEST_GAP:
            shares = np.linspace(0.0, 1.0, count)
        for first in np.rint(shares * (len(readings) - length)).astype(np.int64):
            hidden[sensor, readings[first : first + length]] = True
    return hidden


def continued(
    forms: Sequence[Form], sensors: Sequence[str], values: Doubles, start_ms: int, cells: Bools
) -> tuple[Doubles, Doubles]:
    """Return means and deviations [C, N] of the forms in long gaps, moved so that they meet the readings beside them.

    The forms answer without the sensor's readings beside the gap. Their offset from these readings goes along a line
    from one end of the gap to the other; at an end of the table it stays.

    Args:
        forms: forms in order, as for `answers_of_all`.
        sensors: names of the C sensors.
        values: float64 [C, N], sensor units; NaN where missing.
        start_ms: time of the first step.
        cells: bool [C, N], cells of the gaps.
    """
    reach = max(form.steps for form in forms)
    observed = ~np.isnan(values)
    beside = observed & (nearest(cells) <= reach)
    mean, deviation = answers_of_all(
        forms, sensors, np.where(beside, np.nan, values), start_ms, cells | (beside & (nearest(cells) <= _JOIN))
    )
    offset = values - mean
    for sensor in np.flatnonzero(cells.any(axis=1)):
        for first, end in runs(cells[sensor]):
            ends = [_level(offset[sensor, max(0, first - _JOIN) : first]), _level(offset[sensor, end : end + _JOIN])]
            known = np.isfinite(ends)
            if known.any():
                places = np.array([first - 1, end])[known]
                mean[sensor, first:end] += np.interp(np.arange(first, end), places, np.array(ends)[known])
    return mean, deviation * np.sqrt(np.minimum(1.0, nearest(observed) / (reach / 2)))


def _level(offsets: Doubles) -> float:
    known = offsets[np.isfinite(offsets)]
    return float(known.mean()) if len(known) else np.nan


def tried(
    forms: Sequence[Form],
    sensors: Sequence[str],
    kinds: Sequence[Kind | None],
    groups: Sequence[Group],
    hidden: Sequence[Bools],
    limits: Limits,
) -> LongGaps:
    """Fill the hidden readings, and compare.

    Args:
        forms: forms that were fitted without the hidden readings.
        sensors: names of the C sensors.
        kinds: kinds of the C sensors.
        groups: groups with all readings.
        hidden: cells of each group that `long_cells` chose.
        limits: limits that filled values respect.
    """
    out = LongGaps.untried(len(sensors))
    parts: list[list[Doubles]] = [[] for _ in sensors]  # of each half of a group: a row of `found` each
    longest, count = np.zeros(len(sensors)), np.zeros(len(sensors))
    for group, cells in zip(groups, hidden, strict=True):
        truth = group.believed
        longest = np.maximum(longest, gap_lengths(np.isnan(truth)).max(axis=1, initial=0))
        count = np.maximum(count, (~np.isnan(truth)).sum(axis=1))
        known = np.where(cells, np.nan, truth)
        start_ms = int(group.times_ms[0])
        plain, spread = answers_of_all(forms, sensors, known, start_ms, cells)
        moved, near_spread = continued(forms, sensors, known, start_ms, cells)
        line = lines(known, ~np.isnan(known), kinds).values
        last = last_value(known, ~np.isnan(known))
        for sensor in np.flatnonzero(cells.any(axis=1)):
            rest = known[sensor][~np.isnan(known[sensor])]
            middle = rest.mean() if len(rest) else np.nan
            values = (limits.keep(plain), limits.keep(moved), line, np.where(np.isnan(last), line, last))
            off = [np.abs(each[sensor] - truth[sensor]) for each in (*values, np.full_like(truth, middle))]
            found = np.stack([*off, spread[sensor], near_spread[sensor]])
            half = np.median(np.flatnonzero(cells[sensor]))
            scored = cells[sensor] & np.isfinite(found).all(axis=0)
            for side in (np.arange(len(scored)) <= half, np.arange(len(scored)) > half):
                parts[sensor].append(found[:, scored & side])
    for sensor in np.flatnonzero([bool(each) for each in parts]):
        cells = np.concatenate(parts[sensor], axis=1)
        if cells.shape[1] < _LEAST:
            out.error[sensor], out.usual[sensor] = np.inf, 0.0
            continue
        plain_error, moved_error, line_error, last_error, out.usual[sensor], *deviations = cells.mean(axis=1)
        moves = int(moved_error <= plain_error)
        out.anchored[sensor] = moves
        out.error[sensor], out.deviation[sensor] = min(plain_error, moved_error), deviations[moves]
        if longest[sensor] <= count[sensor] // _PART:
            out.simple[sensor] = min(line_error, last_error)
        halves = [part.mean(axis=1) for part in parts[sensor] if part.shape[1]]
        shares = [_share(out.error[sensor] / _MARGIN, min(line_error, last_error))]
        out.ratio[sensor] = max(shares + [_share(half[moves], half[2:4].min()) for half in halves])
        out.width[sensor] = _width([(part[moves], part[5 + moves]) for part in parts[sensor]])
    return out


def _share(error: float, other: float) -> float:
    return error / other if other > 0.0 else np.inf


def _width(parts: Sequence[tuple[Doubles, Doubles]]) -> float:
    """The number of deviations within which nine of ten errors lie, at the worse of the halves.

    Errors of one stretch are correlated, so its cells tell less about the next stretch than their number suggests.
    """
    widths = [
        float(np.quantile(error[spread > 0] / spread[spread > 0], 0.9))
        for error, spread in parts
        if (spread > 0).sum() >= _LEAST
    ]
    return max(widths, default=np.nan)


def own_gaps(observed: Bools, longest: int, group: int = 0) -> Bools:
    """Choose observed cells of a group [C, N] to hide: about a twelfth of each sensor's, at most a quarter.

    The holes of a table predict the next ones: its own pattern of missing cells is shifted by a random number of steps
    and laid over the readings. Whole missing rows stay whole, and long gaps stay long. Sensors with hardly any holes of
    their own also get random blocks.

    Args:
        observed: bool [C, N], cells with a reading.
        longest: longest gap in steps that is part of the pattern; longer gaps are usually not filled.
        group: number of the group, which seeds the random numbers.
    """
    rng = np.random.default_rng([_SEED, group])
    sensors, steps = observed.shape
    missing = ~observed
    pattern = missing & (gap_lengths(missing) <= longest)
    readings = observed.sum(axis=1)
    hidden = np.zeros_like(observed)
    for _ in range(_MOVES if steps > 1 else 0):
        short = hidden.sum(axis=1) < np.maximum(_SHARE * readings, _LEAST_CELLS)
        if not short.any():
            break
        moved = np.roll(pattern, int(rng.integers(1, steps)), axis=1) & observed & short[:, None]
        share = float((moved.sum(axis=1) / np.maximum(readings, 1)).max())
        block = max(1, longest // 2)
        kept = rng.random(-(-steps // block)) < min(1.0, _SHARE / max(share, 1e-9))
        hidden |= moved & np.repeat(kept, block)[:steps]
    for sensor in range(sensors):
        most = int(readings[sensor]) // 4
        for _ in range(_LEAST_CELLS):
            if hidden[sensor].sum() >= min(_LEAST_CELLS, most):
                break
            at = int(rng.choice(np.flatnonzero(observed[sensor])))
            end = at + int(rng.choice(_RANDOM_BLOCKS))
            hidden[sensor, at:end] |= observed[sensor, at:end]
        over = np.flatnonzero(hidden[sensor])
        if len(over) > most:
            hidden[sensor, rng.permutation(over)[most:]] = False
    return hidden
