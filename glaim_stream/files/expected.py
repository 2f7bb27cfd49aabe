"""Finds the cells in which no reading is expected, and the rows whose times a clock repeats.

An empty cell is no hole where its row logs an event, or where its sensor is read less often than the table has rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.times import NO_TIME

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

_ON_PHASE = 0.9  # least share of the readings that are on their cadence
_USUAL = 0.5  # least share of the distances of readings that are one interval of the cadence
_BITS = 7.0  # least evidence: readings that fall on one place of an interval of k steps by chance have log2(k) each
_FEW = 2  # readings, which show no cadence of their own
_OFF = 0.02  # fraction of a step by which the row of an event misses the times of the others
_MOST_MARKED = 0.2  # share of the rows in which a column of events may have a cell
_MOST_BACKS = 0.01  # share of the rows before which a clock may run back; with more, rows are out of order throughout
_EQUAL = 0.5  # least share of equal readings in rows that were exported twice


class Cadence(NamedTuple):
    """Steps `phase + every * k`, at which a sensor is read; `every` 0: at none but those of its readings."""

    every: int
    phase: int

    def off(self, steps: Ints) -> Bools:
        """Steps at which no reading is expected."""
        if not self.every:
            return np.ones(len(steps), np.bool_)
        off: Bools = steps % self.every != self.phase
        return off


def cadences(read: Mapping[int, Ints]) -> dict[int, Cadence]:
    """Find the sensors of a group that are read at every k-th step, k above 1, beside others that are read more often.

    A sensor with one or two readings, all at steps of such a cadence, is taken to be at least as slow.

    Args:
        read: int64 [n], ascending steps with a reading by sensor.
    """
    own = {sensor: _cadence(steps) for sensor, steps in read.items()}
    found = {
        sensor: each for sensor, each in own.items()
        if each is not None and any(_is_faster(steps, each) for steps in read.values())
    }  # fmt: skip
    slow = set(found.values())
    for sensor, steps in read.items():
        if 0 < len(steps) <= _FEW and any(not each.off(steps).any() for each in slow):
            found[sensor] = Cadence(0, 0)
    return found


def _cadence(steps: Ints) -> Cadence | None:
    distances = np.diff(steps)
    if len(distances) < _FEW:
        return None
    lengths, counts = np.unique(distances, return_counts=True)
    every = int(lengths[np.argmax(counts)])
    phases, on = np.unique(steps % every, return_counts=True)
    share = on.max() / len(steps)
    told = (on.max() - 1) * np.log2(every) >= _BITS
    if every < 2 or counts.max() < _USUAL * len(distances) or share < _ON_PHASE or not told:
        return None
    return Cadence(every, int(phases[np.argmax(on)]))


def _is_faster(steps: Ints, slow: Cadence) -> bool:
    """Whether most readings of a sensor are off the cadence of another."""
    return len(steps) > _FEW and bool(slow.off(steps).mean() > 1 - _ON_PHASE)


def marks_of_events(columns: Collection[Bools], rows: int) -> Bools:
    """Rows with a cell in a column that is empty in most rows, bool [rows]; a column is where it has cells."""
    out = np.zeros(rows, np.bool_)
    for filled in columns:
        if filled.any() and filled.mean() <= _MOST_MARKED:
            out |= filled
    return out


def event_rows(times_ms: Ints, read: Bools, marked: Bools, step_ms: int) -> Bools:
    """Rows that log an event and no reading: without any, marked, and at none of the times at which readings are due.

    Args:
        times_ms: int64 [rows] of a group, NO_TIME where a row has none.
        read: bool [rows], rows with a reading of any sensor.
        marked: bool [rows], rows with the text of an event.
        step_ms: usual time between rows.
    """
    out = np.zeros(len(times_ms), np.bool_)
    due = np.sort(times_ms[read & (times_ms != NO_TIME)])
    rows = np.flatnonzero(marked & ~read & (times_ms != NO_TIME))
    if not len(due) or not len(rows):
        return out
    place = np.searchsorted(due, times_ms[rows], side="right")
    since = (times_ms[rows] - due[np.maximum(place - 1, 0)]) / step_ms
    outside = (place == 0) | (times_ms[rows] > due[-1])
    out[rows] = outside | (np.abs(since - np.rint(since)) > _OFF) | (np.rint(since) == 0)
    return out


def repeated_rows(times_ms: Ints, columns: Sequence[Doubles], rows: Ints) -> Bools:
    """Rows of two runs with the same times and other readings, as where a clock is set back; bool [rows].

    Rows that were exported twice have the same readings.

    Args:
        times_ms: int64 [rows] of a series in the order of the table, NO_TIME where a row has none.
        columns: readings of each column in all rows of the table, NaN where missing.
        rows: int64 [rows], places of the series in the table.
    """
    out = np.zeros(len(times_ms), np.bool_)
    dated = np.flatnonzero(times_ms != NO_TIME)
    times = times_ms[dated]
    backs = np.flatnonzero(np.diff(times) < 0)
    if len(backs) > max(_FEW, _MOST_BACKS * len(times)):
        return out
    for at in backs.tolist():
        after = at + 1 + np.flatnonzero(times[at + 1 :] <= times[at])
        _, first, second = np.intersect1d(times[: at + 1], times[after], return_indices=True)
        one, other = dated[first], dated[after[second]]
        if len(one) >= _FEW and not _same([(each[rows[one]], each[rows[other]]) for each in columns]):
            out[one] = out[other] = True
    return out


def _same(pairs: Sequence[tuple[Doubles, Doubles]]) -> bool:
    """Whether each sensor with readings in both has mostly the same."""
    shares = [
        (one == other)[both].mean() for one, other in pairs if (both := np.isfinite(one) & np.isfinite(other)).any()
    ]
    return bool(shares) and min(shares) >= _EQUAL
