"""Detects events in the readings of a group, by the habits of its sensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.times import text_of_ms
from glaim_stream.health import drift, runs
from glaim_stream.health.estimates import BLOCK
from glaim_stream.health.habits import GAPS_WINDOW, Habits
from glaim_stream.health.series import GridSeries, onsets, sliding_count
from glaim_stream.health.statistics import spike_share

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

QUIET = 48  # steps without an alarm of a sensor before its next alarm is an event
_ONE_OUTAGE = 16  # steps between the first and the last silence of an outage
_WAIT = 6  # blocks after the first block at fault in which other sensors may join
_ONE_SHIFT = 24  # blocks before and after a shift in which drifts are part of it
_LASTING = 4  # blocks at fault, of the last `_WAIT`, that make a drift
# Steps before a step that decide whether it has an event: a mean with a run in it, shifts, and both quiet times.
MEMORY = drift.MEMORY + runs.LONGEST + (3 * _ONE_SHIFT + _WAIT) * BLOCK + 2 * QUIET
_DENSE = 0.5  # share of the steps with a spike, from which spikes are chatter


def detect(habits: Habits, series: GridSeries, warm_up: int = 0) -> list[Event]:
    """Return the events of a group in the order of time.

    Args:
        habits: habits of the group's sensors.
        series: readings of the group.
        warm_up: number of first steps without events of their own; MEMORY of them give the events of a longer series.

    Raises:
        ValueError: the series has other sensors or another step than the habits, or its group is unknown.
    """
    expected = (len(habits.sensors), habits.step_ms)
    if (len(series.values), series.step_ms) != expected:
        raise ValueError(
            f"expected {expected[0]} sensors in steps of {expected[1]} ms, found {len(series.values)} sensors in steps "
            f"of {series.step_ms} ms"
        )
    if series.group not in habits.levels:
        raise ValueError(f"expected one of the groups {sorted(habits.levels)}, found {series.group!r}")
    judged = habits.judged[series.group][:, None]
    alarm = {name: (habits.scores(name, series) > 1.0) & judged for name in ("runs", "spiking", "chatter")}
    drifts, moved = _drifts(habits, series, np.logical_or.reduce(list(alarm.values())), judged)
    found = [*drifts, *_stuck(habits, series, moved, judged), *_silent(habits, series, judged)]
    found += _jumps(habits, series, judged)
    for detector in ("clock", "gaps"):
        kind = kind_of(detector, 1, np.zeros(0, np.bool_))
        for members, since, step, score in _windowed(habits.scores(detector, series), series, judged):
            found.append(_event(habits, series, kind, members, since, step, score))
    from_ms = (series.first + warm_up) * series.step_ms
    return sorted((each for each in found if each.ts_ms >= from_ms), key=lambda each: (each.ts_ms, each.kind))


def _stuck(habits: Habits, series: GridSeries, moved: Bools, judged: Bools) -> Iterator[Event]:
    """Runs that are too long; those that began together are one event.

    Sensors that came to rest together, at values at which they usually rest or at their limits, are no event: a valve
    was shut, or the air is saturated. During an outage the sensors that rest with one may be among the silent ones.

    Args:
        habits: habits of the sensors.
        series: readings of the sensors.
        moved: bool [C, N], sensors whose values have moved, so they rest at other values.
        judged: bool [C, 1], sensors that are judged.
    """
    found, score = runs.runs_of(series), habits.run_scores(series, moved)
    stuck = (score > 1.0) & judged
    outage = ((habits.scores("silence", series) > 1.0) & judged).sum(axis=0) > 1
    at_limit = (found.value <= habits.lowest[:, None]) | (found.value >= habits.highest[:, None])
    at_rest = habits.at_rest(found.value) | at_limit
    begins = onsets(stuck, QUIET)
    for step in np.flatnonzero(begins.any(axis=0)).tolist():
        # Runs of half the length that is too long have begun too; they may exceed the threshold later.
        for members in runs.began_together(found.start[:, step], (score[:, step] > 0.5) & judged[:, 0]):
            if not begins[members, step].any() or _alarmed_before(stuck, members, step):
                continue
            if (len(members) > 1 or outage[step]) and at_rest[members, step].all():
                continue
            since = int(found.start[members, step].min())
            kind = kind_of("runs", len(members), at_limit[members, step])
            yield _event(habits, series, kind, members, since, step, score[members, step].max())


def _silent(habits: Habits, series: GridSeries, judged: Bools) -> Iterator[Event]:
    """Silences that are too long; those that began together, or one after the other and still last, are one event."""
    age, score = runs.silence(series), habits.scores("silence", series)
    alarm = (score > 1.0) & judged
    begins = onsets(alarm, QUIET)
    found: list[_Silence] = []
    for step in np.flatnonzero(begins.any(axis=0)).tolist():
        start = step - age[:, step] + 1
        for members in runs.began_together(start, (age[:, step] > 0) & judged[:, 0]):
            if not begins[members, step].any() or _alarmed_before(alarm, members, step):
                continue
            each = _Silence(members, int(start[members].min()), step, float(score[members, step].max()))
            if found and each.follows(found[-1], age[:, step]):
                each = found.pop().with_others(each)
            found.append(each)
    for each in found:
        kind = kind_of("silence", len(each.members), np.zeros(0, np.bool_))
        yield _event(habits, series, kind, each.members, each.since, each.step, each.score)


@dataclass(frozen=True)
class _Silence:
    """Sensors that fell silent at step `since` or later, noticed at `step`."""

    members: Ints
    since: int
    step: int
    score: float

    def follows(self, earlier: _Silence, age: Ints) -> bool:
        """Whether a silence, noticed with these ages [C], is part of an earlier one that still lasts."""
        lasts = (self.step - age[earlier.members] < self.since).any()
        return bool(lasts) and self.since - earlier.since <= _ONE_OUTAGE

    def with_others(self, later: _Silence) -> _Silence:
        """Both silences as one, noticed when it had several sensors."""
        step = self.step if len(self.members) > 1 else later.step
        members = np.union1d(self.members, later.members)
        return _Silence(members, min(self.since, later.since), step, max(self.score, later.score))


def _alarmed_before(alarm: Bools, members: Ints, step: int) -> bool:
    """Whether one of the members alarmed within the quiet time before a step: the event has been reported."""
    return bool(alarm[members, max(0, step - QUIET) : step].any())


def _jumps(habits: Habits, series: GridSeries, judged: Bools) -> Iterator[Event]:
    """Spikes and chatter, which alarm together: dense spikes are chatter."""
    spiking = habits.scores("spiking", series)
    score = np.maximum(spiking, habits.scores("chatter", series))
    share = spike_share(series, habits.units, BLOCK)
    # While a sensor is silent, readings leave the window, and the mean of fewer is less certain.
    for members, since, step, highest in _windowed(score, series, judged & series.observed):
        dense = share[members, step].max() >= _DENSE or spiking[members, step].max() <= 1.0
        yield _event(habits, series, kind_of("jumps", len(members), np.array(dense)), members, since, step, highest)


def _windowed(score: Doubles, series: GridSeries, judged: Bools) -> Iterator[tuple[Ints, int, int, float]]:
    """Alarms of window statistics: sensors, first and last step, and score; a stretch of BLOCK steps has one alarm."""
    begins = onsets((score > 1.0) & judged, QUIET)
    stretch = (series.first + np.arange(series.steps)) // BLOCK
    steps = np.flatnonzero(begins.any(axis=0))
    for number in np.unique(stretch[steps]):
        mine = steps[stretch[steps] == number]
        last = int((number + 1) * BLOCK - 1 - series.first)
        if last >= series.steps:
            continue  # not over yet
        members = np.flatnonzero(begins[:, mine].any(axis=1))
        since = max(0, int(mine[0]) - GAPS_WINDOW + 1)
        yield members, since, last, float(score[members][:, mine].max())


def _drifts(habits: Habits, series: GridSeries, doubted: Bools, judged: Bools) -> tuple[list[Event], Bools]:
    """Sensors at fault, some blocks after the first block at fault; several of them within these blocks are a shift.

    A drift belongs to a shift that follows or preceded it: in a shift, sensors leave their estimates one by one.

    Returns:
        Events, and the sensors whose values have moved, bool [C, N].
    """
    moved = np.zeros(series.observed.shape, np.bool_)
    if habits.estimates is None:
        return [], moved
    deviation, first = habits.deviation(series, doubted)
    count = deviation.shape[1]
    if not count:
        return [], moved
    of_block = doubted[:, first : first + count * BLOCK].reshape(len(doubted), count, BLOCK)
    blocks: Bools = np.logical_or.reduce(of_block, axis=2)
    limit = habits.unit["drift"] * habits.threshold["drift"]
    fault, sure, score = drift.at_fault(np.where(judged, deviation, np.nan), blocks, habits.estimates, limit)
    recent, alarmed = sliding_count(fault, _WAIT), sliding_count(score > 1.0, _WAIT)
    several = ((sliding_count(fault & sure, _WAIT) > 0).sum(axis=0) >= drift.shared_by(len(fault)))[None]
    shifts = onsets(several, _ONE_SHIFT)[0]
    shifted = sliding_count(several, _ONE_SHIFT) > 0
    alone = onsets(recent >= _LASTING, QUIET // BLOCK) & ~shifted
    after = np.repeat((sliding_count(alone, _ONE_SHIFT) > 0) | shifted, BLOCK, axis=1)  # known when a block is over
    moved[:, first + BLOCK :] = after[:, : series.steps - first - BLOCK]
    events = []
    for block in np.flatnonzero(shifts | alone.any(axis=0)).tolist():
        start = block
        if shifts[block]:
            earlier = alone[:, max(0, block - _ONE_SHIFT) : block]
            members = np.flatnonzero((recent + alarmed)[:, block] + earlier.sum(axis=1) > 0)
            if earlier.any():
                start -= earlier.shape[1] - int(earlier.any(axis=0).argmax())
        elif shifts[block : block + _ONE_SHIFT + 1].any():
            continue
        else:
            members = np.flatnonzero(alone[:, block])
        since = max(0, first + (start + 1 - drift.BLOCKS - _WAIT) * BLOCK)
        kind = kind_of("drift", len(members), shifts[block])
        highest = score[:, max(0, block - _WAIT + 1) : block + 1].max()
        events.append(_event(habits, series, kind, members, since, first + (block + 1) * BLOCK - 1, highest))
    return events, moved


def _event(
    habits: Habits, series: GridSeries, kind: Fault, members: Ints, since: int, step: int, score: float
) -> Event:
    return Event(
        kind,
        series.group,
        tuple(habits.sensors[place] for place in members),
        (series.first + since) * series.step_ms,
        (series.first + int(step)) * series.step_ms,
        float(score),
    )


class Fault(StrEnum):
    """Kind of a fault."""

    FROZEN = "frozen"  # repeats a value that it does not usually repeat
    LIMIT = "limit"  # repeats the least or the largest value that it ever had
    SPIKING = "spiking"
    DRIFT = "drift"  # leaves its estimate by the other sensors
    SHIFT = "shift"  # many of the group's sensors leave their estimates: the habits, or a model, are out of date
    CHATTER = "chatter"  # jumps to and fro
    CLOCK = "clock"  # its stamps jump within their steps
    SILENT = "silent"
    OUTAGE = "outage"  # several sensors fell silent together
    MISSINGNESS = "missingness"  # gaps begin more often than they used to


def kind_of(detector: str, members: int, special: NDArray[np.bool_]) -> Fault:
    """Return the kind of a fault.

    Args:
        detector: a name of `live.DETECTORS`.
        members: number of sensors.
        special: bool [members], runs at a limit, jumps that are chatter, or drifts that are a shift.
    """
    match detector:
        case "runs":
            return Fault.LIMIT if special.all() else Fault.FROZEN
        case "silence":
            return Fault.OUTAGE if members > 1 else Fault.SILENT
        case "jumps":
            return Fault.CHATTER if special.any() else Fault.SPIKING
        case "drift":
            return Fault.SHIFT if special.any() else Fault.DRIFT
        case "gaps":
            return Fault.MISSINGNESS
        case _:
            return Fault.CLOCK


@dataclass(frozen=True, slots=True)
class Event:
    """An event of one sensor, or of several at once.

    Its key is (group, kind, ts_ms, sensors): the same readings give the same key, also after a restart.

    sensors: ids in the order of the group's sensors; a drift names the sensors at fault, not their neighbours.
    since_ms: start of the first step of the event, at most `runs.LONGEST` steps before `ts_ms`.
    ts_ms: start of the step whose readings made it an event.
    score: highest statistic in units of its threshold, above 1; a drift counts all sensors of the group.
    """

    kind: Fault
    group: str
    sensors: tuple[str, ...]
    since_ms: int
    ts_ms: int
    score: float

    def document(self) -> dict[str, object]:
        """Return the event as a JSON document."""
        return {
            "group": self.group,
            "kind": str(self.kind),
            "sensors": list(self.sensors),
            "since": text_of_ms(self.since_ms),
            "ts": text_of_ms(self.ts_ms),
            "score": round(self.score, 2),
        }
