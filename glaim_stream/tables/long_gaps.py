"""Measures the errors of filled values in gaps longer than a window, by a trial on gaps of this length.

The deviation that a form states holds for windows like those that it was fitted to. In a gap of days a sensor moves
further: on 3,000 rows of weather, estimates of an air pressure that was missing for the last 1,200 rows were wrong by
8.0 mbar, and those of single hidden readings by 0.1. So the first and the last readings of a sensor with such a gap are
hidden. Each stretch is as long as the gap but at most a sixth of the readings. A form that has not seen them fills
them. Errors count where no reading of the sensor lies within half a window; nearer cells are like those of short gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form import Limits, nearest
from glaim_stream.tables.central import answers_of_all
from glaim_stream.tables.groups import Form, Group
from glaim_stream.tables.lines import gap_lengths

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]

LONGEST_GAP = 48  # steps; gaps of up to this length are filled by default
KNOWN = 0.8  # share of the error of a sensor's mean; a form with a smaller error is informative
_PART = 6  # each hidden stretch has at most 1 / _PART of the readings
_LEAST = 20  # far cells that a trial needs
_SEED = 20_261
_SHARE = 0.08  # share of a sensor's readings to hide
_LEAST_CELLS = 30  # hidden cells of a sensor, if it has enough readings
_MOVES = 8
_RANDOM_BLOCKS = (1, 1, 1, 2, 4, 8)  # steps


@dataclass(frozen=True)
class LongGaps:
    """Results of the trial for C sensors, float64 [C]; NaN where a sensor had no long gap.

    error: mean absolute error of the forms, sensor units; infinite where there were too few readings to try.
    usual: mean absolute error of the sensor's mean at the same cells.
    width: half of the 90 % band, in deviations of the forms.
    reach: steps to the nearest reading beyond which a cell is far.
    """

    error: Doubles
    usual: Doubles
    width: Doubles
    reach: int

    @classmethod
    def untried(cls, sensors: int) -> LongGaps:
        """Results for a table without long gaps."""
        return cls(np.full(sensors, np.nan), np.full(sensors, np.nan), np.full(sensors, np.nan), 0)

    @property
    def hopeless(self) -> Bools:
        """Sensors [C] whose forms are uninformative in long gaps, or were not measured."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.error >= KNOWN * self.usual)

    def far(self, distance: Doubles) -> Bools:
        """Cells too far from readings of their sensor to be estimated from these; `distance` is in steps [C, N]."""
        return np.asarray(distance > self.reach)


def long_cells(group: Group) -> Bools:
    """Readings [C, N] to hide for the trial on long gaps."""
    believed = group.believed
    hidden = np.zeros(believed.shape, np.bool_)
    longest = gap_lengths(np.isnan(believed)).max(axis=1, initial=0)
    for sensor in np.flatnonzero(longest > LONGEST_GAP):
        readings = np.flatnonzero(~np.isnan(believed[sensor]))
        length = min(int(longest[sensor]), len(readings) // _PART)
        hidden[sensor, readings[:length]] = True
        hidden[sensor, readings[len(readings) - length :]] = True
    return hidden


def tried(
    forms: Sequence[Form],
    sensors: Sequence[str],
    groups: Sequence[Group],
    hidden: Sequence[Bools],
    limits: Limits,
) -> LongGaps:
    """Fill the hidden readings, and compare.

    Args:
        forms: forms that were fitted without the hidden readings.
        sensors: names of the C sensors.
        groups: groups with all readings.
        hidden: cells of each group that `long_cells` chose.
        limits: limits that filled values respect.
    """
    out = LongGaps.untried(len(sensors))
    reach = max(form.steps for form in forms) // 2
    ends: list[list[Doubles]] = [[] for _ in sensors]  # errors, errors of the mean, deviations of each end's far cells
    for group, cells in zip(groups, hidden, strict=True):
        truth = group.believed
        known = np.where(cells, np.nan, truth)
        mean, deviation = answers_of_all(forms, sensors, known, int(group.times_ms[0]), cells)
        mean = limits.keep(mean)
        scored = cells & (nearest(~np.isnan(known)) > reach) & np.isfinite(mean)
        for sensor in np.flatnonzero(cells.any(axis=1)):
            rest = known[sensor][~np.isnan(known[sensor])]
            usual = np.abs(truth[sensor] - (rest.mean() if len(rest) else np.nan))
            found = np.stack([np.abs(mean[sensor] - truth[sensor]), usual, deviation[sensor]])
            middle = np.median(np.flatnonzero(cells[sensor]))
            for end in (np.arange(cells.shape[1]) <= middle, np.arange(cells.shape[1]) > middle):
                ends[sensor].append(found[:, scored[sensor] & end])
    for sensor in np.flatnonzero([bool(each) for each in ends]):
        cells = np.concatenate(ends[sensor], axis=1)
        if cells.shape[1] < _LEAST:
            out.error[sensor], out.usual[sensor] = np.inf, 0.0
            continue
        out.error[sensor], out.usual[sensor] = cells[:2].mean(axis=1)
        out.width[sensor] = _width(ends[sensor])
    return LongGaps(out.error, out.usual, out.width, reach)


def _width(ends: Sequence[Doubles]) -> float:
    """The number of deviations within which nine of ten errors lie, at the worse of the ends.

    Errors of one stretch are correlated, so its cells tell less about the next stretch than their number suggests.
    """
    widths = [
        float(np.quantile(error[spread > 0] / spread[spread > 0], 0.9))
        for error, _, spread in ends
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
