"""Detectors for a stream, which judge many groups at once at the end of each block of eight steps.

They are the detectors of `detect`, with the same habits and thresholds, restricted to a worker's windows: runs count up
to a window and silences up to `LONGEST` steps, so they do not judge a sensor whose habit is longer. Each result is a
function of the window before the end of its block, so a worker that reads it again gets the same results to the bit.
Drift and clocks are judged by `blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from glaim_stream.health import runs, statistics
from glaim_stream.health.estimates import BLOCK, Estimates
from glaim_stream.health.habits import Habits
from glaim_stream.health.series import GridSeries, of_whole, whole

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

DETECTORS = ("runs", "silence", "gaps", "jumps", "drift", "clock")  # spikes and chatter alarm together
FEWEST_JUDGED_STEPS = 48  # steps from which a window is judged
LONGEST = 80  # steps of a silence: a sensor that was never seen counts as silent since its group was first seen
PEAK_STEPS = BLOCK + 2 * statistics.NEAR  # steps on which the spikes of a block depend
WINDOW_BLOCKS = statistics.WINDOW // BLOCK
_DENSE = 0.5  # share of a block's steps with a spike, from which spikes are chatter
_JOINS = 0.5  # share of a threshold from which a sensor takes part in an event of others at the same moment


@dataclass(frozen=True)
class LiveHabits:
    """Habits of C sensors as arrays with groups as rows; the last row is for unknown groups."""

    habits: Habits

    def __deepcopy__(self, memo: object) -> LiveHabits:
        return self

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Row of each known group."""
        return {name: row for row, name in enumerate(self.habits.judged)}

    @cached_property
    def judged(self) -> Bools:
        """Sensors that are judged, bool [groups + 1, C]; in an unknown group, those judged in any known one."""
        known = np.array(list(self.habits.judged.values()))
        return np.vstack([known, known.any(axis=0)])

    @cached_property
    def limit(self) -> dict[str, Doubles]:
        """Limit above which the statistic of each detector alarms, float64 [C]."""
        habits = self.habits
        return {name: habits.unit[name] * habits.threshold[name] for name in habits.unit}

    @property
    def judges_drift(self) -> bool:
        """Whether the habits have estimates, and thresholds for this kind of drift."""
        return self.habits.estimates is not None and bool(np.isfinite(self.limit["drift"]).any())

    @property
    def judges_clock(self) -> bool:
        """Whether the habits were learned from readings whose stamps are known."""
        return bool(np.isfinite(self.limit["clock"]).any())

    @property
    def estimates(self) -> Estimates:
        """Estimates by the other sensors, if drift is judged."""
        assert self.habits.estimates is not None
        return self.habits.estimates

    @cached_property
    def levels(self) -> Doubles:
        """Levels of the sensors, [groups + 1, C]; NaN where they are unknown."""
        known = np.array([self.habits.levels[name] for name in self.row_of])
        return np.vstack([known, np.full(known.shape[1], np.nan)])

    @cached_property
    def rest(self) -> Doubles:
        """Number of readings at a resting value that count as one, float64 [C]."""
        return self.habits.rest

    @cached_property
    def resting(self) -> Doubles:
        """Resting values [C, MOST_RESTING] as float32 digits, since training may have kept float32; NaN for none."""
        out = np.full((len(self.habits.sensors), runs.MOST_RESTING), np.nan)
        for sensor, values in enumerate(self.habits.resting):
            out[sensor, : len(values)] = values
        return out.astype(np.float32).astype(np.float64)

    def at_rest(self, values: Doubles, sensor: Ints) -> Bools:
        """Whether values [k] are resting values of their sensors [k]."""
        found: Bools = (_short(values)[:, None] == self.resting[sensor]).any(axis=1)
        return found

    def at_limit(self, values: Doubles, sensor: Ints) -> Bools:
        """Whether values [k] are the least or the largest that their sensors [k] ever had, or lie beyond."""
        lowest, highest = _short(self.habits.lowest)[sensor], _short(self.habits.highest)[sensor]
        found: Bools = (_short(values) <= lowest) | (_short(values) >= highest)
        return found


@dataclass(frozen=True)
class Found:
    """Result of a detector at the end of a block, for R groups of C sensors.

    alarm: bool [R, C], sensors that alarm.
    statistic: float64 [R, C], in the detector's own unit; 0 where it was not computed.
    limit: float64 [R, C], value above which the statistic alarms.
    age: int64 [R, C], steps since the event began.
    special: bool [R, C], runs at a limit; for jumps, True if they are chatter.
    """

    alarm: Bools
    statistic: Doubles
    limit: Doubles
    age: Ints
    special: Bools


@dataclass(frozen=True)
class Jumps:
    """Sums of one block [R, C]: spikes and bends in 1/65,536 of a unit, readings with a bend, readings with a spike."""

    spikes: Ints
    bends: Ints
    bent: Ints
    spiky: Ints


def jumps_of_block(live: LiveHabits, values: Doubles, observed: Bools) -> Jumps:
    """Sum up spikes and bends of the newest block.

    Args:
        live: habits.
        values: float64 [R, C, PEAK_STEPS], the newest step last.
        observed: bool [R, C, PEAK_STEPS].
    """
    units = live.habits.units
    peak, bend = _peaks_and_bends(values, observed)
    known = np.isfinite(bend)
    with np.errstate(invalid="ignore"):
        size = peak / units.peak[:, None] - 1.0
        spike = size > 0
        others = spike.sum(axis=1, keepdims=True) - spike
        counted = spike & (others < max(spike.shape[1] - 1, 2) / 2)
        spikes = whole(np.where(counted, np.minimum(size, statistics.MOST_OF_SPIKE), 0.0))
        bends = whole(np.where(known, np.minimum(bend / units.bend[:, None], statistics.MOST_OF_JUMP), 0.0))
    return Jumps(*(each.sum(axis=2, dtype=np.int64) for each in (spikes, bends, known, spike)))


def jumps(live: LiveHabits, block: Jumps, spikes: Ints, bends: Ints, bent: Ints) -> Found:
    """Judge spikes and chatter by sums [R, C] over the newest WINDOW_BLOCKS blocks, the newest among them."""
    spiking = of_whole(spikes) / live.limit["spiking"]
    chatter = statistics.mean_of(of_whole(bends), bent) / live.limit["chatter"]
    dense = (block.spiky >= _DENSE * BLOCK) | (spiking <= 1.0)
    by_chatter = chatter > spiking
    limit = np.where(by_chatter, live.limit["chatter"], live.limit["spiking"])
    score = np.maximum(spiking, chatter)
    age = np.full(score.shape, statistics.WINDOW - 1, np.int64)
    # While a sensor is silent, readings leave the sums, and the mean of fewer is less certain.
    return Found((score > 1.0) & (block.bent > 0), score * limit, limit, age, dense)


def gaps(live: LiveHabits, observed: Bools) -> Found:
    """Judge the number of gaps that began in a window, bool [R, C, T]."""
    begun = np.count_nonzero(observed[..., :-1] & ~observed[..., 1:], axis=2)
    limit = np.broadcast_to(live.limit["gaps"], begun.shape)
    age = np.full(begun.shape, observed.shape[2] - 1, np.int64)
    return Found(begun > limit, begun.astype(np.float64), limit, age, np.zeros(begun.shape, np.bool_))


def silence(live: LiveHabits, age: Ints, since: Ints, known: Bools, judged: Bools) -> Found:
    """Judge silences; silences that began together with one that is too long are part of it.

    Args:
        live: habits.
        age: int64 [R, C], steps since each sensor's last reading.
        since: int64 [R], steps since the group's first remembered reading, that step included.
        known: bool [R], groups that the habits know: their sensors send readings, even if none has come yet.
        judged: bool [R, C], sensors that count.
    """
    steps = np.minimum(np.minimum(age, since[:, None]), LONGEST)
    spoken = (age < since[:, None]) & (age < LONGEST)
    limit = np.broadcast_to(live.limit["silence"], steps.shape)
    counts = judged & (spoken | known[:, None])
    alarm = (steps > limit) & counts
    for row in np.flatnonzero(alarm.any(axis=1)).tolist():
        for members in runs.began_together(-steps[row], counts[row] & (steps[row] > 0)):
            alarm[row, members] = alarm[row, members].any()
    return Found(alarm, steps.astype(np.float64), limit, steps - 1, np.zeros(alarm.shape, np.bool_))


def stuck(live: LiveHabits, values: Doubles, observed: Bools, candidates: Bools, moved: Bools, outage: Bools) -> Found:
    """Judge runs of equal readings.

    Sensors that rest together are no event; during an outage, the sensors that rest with one may be silent.

    Args:
        live: habits.
        values: float64 [R, C, T], a window, the newest step last.
        observed: bool [R, C, T].
        candidates: bool [R, C], sensors that may be stuck; others are skipped.
        moved: bool [R, C], sensors whose values have moved, so they rest at other values.
        outage: bool [R], groups with several silent sensors.
    """
    shape = candidates.shape
    length, age = np.zeros(shape), np.zeros(shape, np.int64)
    alarm, at_limit, at_rest = (np.zeros(shape, np.bool_) for _ in range(3))
    limit = np.broadcast_to(live.limit["runs"], shape)
    row, sensor = np.nonzero(candidates)
    if len(row):
        found = runs.runs_of(GridSeries("", 0, 1, values[row, sensor], observed[row, sensor]))
        value = found.value[:, -1]
        at_rest[row, sensor], at_limit[row, sensor] = live.at_rest(value, sensor), live.at_limit(value, sensor)
        length[row, sensor] = found.length[:, -1] / np.where((at_rest | moved)[row, sensor], live.rest[sensor], 1.0)
        age[row, sensor] = observed.shape[2] - 1 - found.start[:, -1]
        alarm = length > limit
    for group in np.flatnonzero(alarm.any(axis=1)).tolist():
        for members in runs.began_together(-age[group], length[group] > _JOINS * limit[group]):
            several = len(members) > 1 or outage[group]
            resting = several and bool((at_rest | at_limit)[group, members].all())
            alarm[group, members] = alarm[group, members].any() and not resting
    return Found(alarm, length, limit, age, at_limit)


def was_stuck(live: LiveHabits, values: Doubles, observed: Bools) -> Bools:
    """Return the sensors of a group with too long a run at any step of a window [C, T], bool [C]."""
    found = runs.runs_of(GridSeries("", 0, 1, values, observed))
    sensor = np.repeat(np.arange(len(values)), values.shape[1])
    rests = live.at_rest(found.value.reshape(-1), sensor).reshape(values.shape)
    length = found.length / np.where(rests, live.rest[:, None], 1.0)
    stuck: Bools = np.logical_or.reduce(length > live.limit["runs"][:, None], axis=1)
    return stuck


def may_be_stuck(values: Doubles, observed: Bools) -> Bools:
    """Return the sensors that repeat their value at the newest three steps, or miss one of them, bool [R, C].

    No limit is below four readings (`habits`), so a run of two takes part in no event.

    Args:
        values: float64 [R, C, 3], the newest step last.
        observed: bool [R, C, T], a window.
    """
    repeats = (values[..., :-1] == values[..., 1:]).all(axis=2) | ~observed[..., -3:].all(axis=2)
    found: Bools = repeats & observed.any(axis=2)
    return found


def _peaks_and_bends(values: Doubles, observed: Bools) -> tuple[Doubles, Doubles]:
    """Peaks and bends of `statistics` at the steps of the newest block, [R, C, BLOCK]; faster without holes."""
    newest = values[..., -BLOCK - 2 :]
    first, middle, last = newest[..., :-2], newest[..., 1:-1], newest[..., 2:]
    with np.errstate(over="ignore", invalid="ignore"):
        rise, fall = middle - first, middle - last
        peak = np.where(rise * np.sign(fall) > 0, np.minimum(np.abs(rise), np.abs(fall)), 0.0)
        bend = np.abs(rise + fall) / 2
    holes = ~observed[..., -BLOCK - 2 :].all(axis=2)
    if holes.any():
        series = GridSeries("", 0, 1, values[holes], observed[holes])
        peak[holes], bend[holes] = (each[:, -BLOCK:] for each in statistics.peaks_and_bends(series))
    return peak, bend


def _short(values: Doubles) -> Doubles:
    """The values rounded to float32; infinite if float32 cannot hold them."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)
