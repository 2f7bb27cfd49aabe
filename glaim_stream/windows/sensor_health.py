"""Sensor health in the stream: sensors that begin or cease to be faulty, at the end of each block of eight steps.

Blocks are aligned to the grid, and only event time ends them, so the events are a function of the topic and do not
depend on how it is cut into batches. A sensor is faulty from the first block in which a detector alarms until 48 steps
have passed without an alarm. So an event depends on the 56 steps before it and, for each of their blocks, on 97 steps
before that, or on 136 for drift. That is less than `history.history_steps`, so a rebuilt worker finds the same events.

A group that goes dark is in the outage topic. Its sensors' faults end, and it is judged again when it speaks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.health import BLOCK, DETECTORS, QUIET, Fault, Found, LiveHabits, blocks, kind_of, live, runs
from glaim_stream.windows.holes import LookBack, Rules
from glaim_stream.windows.rings import Rings, RowArray

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_QUIET_BLOCKS = QUIET // BLOCK
_TOGETHER = ("runs", "silence")  # detectors whose age tells which sensors began together
_BITS = {name: np.uint8(1 << place) for place, name in enumerate(DETECTORS)}
FEWEST_OF_DRIFT = 96  # steps of a window: a rebuild reads as many more, and drift depends on these


@dataclass(frozen=True, slots=True)
class SensorEvent:
    """The beginning or the end of a fault of some sensors of a group.

    group: code of the group (groups.GroupIndex).
    detector: name from `live.DETECTORS`; it pairs beginnings with ends.
    kind: fault that begins; None for an end.
    sensors: indices in the model, ascending.
    ts_ms: start of the step whose readings made it an event.
    since_ms: start of the fault's first step, as far back as the window goes; None for an end.
    until_ms: start of the first step after the fault; None for a beginning.
    strongest: index of the sensor with the highest score, to which the next three belong. All four are 0 for an end.
    statistic, threshold, usual: measured value, limit that it exceeds, and highest usual value.
    """

    model_index: int
    group: int
    detector: str
    kind: Fault | None
    sensors: tuple[int, ...]
    ts_ms: int
    since_ms: int | None = None
    until_ms: int | None = None
    strongest: int = 0
    statistic: float = 0.0
    threshold: float = 0.0
    usual: float = 0.0

    @property
    def state(self) -> str:
        """`begin` or `end`."""
        return "end" if self.kind is None else "begin"


class HealthTracker:
    """The faulty sensors of one model's groups in one partition."""

    def __init__(
        self, rings: Rings, rules: Rules, habits: Callable[[], LiveHabits | None], group_names: Sequence[str]
    ) -> None:
        """Start with nothing known.

        Args:
            rings: state of the model's groups, with windows of at least `live.FEWEST_JUDGED_STEPS`.
            rules: the model's window rules.
            habits: gives the habits to judge by now, or None.
            group_names: names by group code; may grow.
        """
        self._rings, self._rules, self._habits, self._names = rings, rules, habits, group_names
        shape = (rings.sensors, live.WINDOW_BLOCKS)
        self._spikes = rings.attach(shape, np.int32)
        self._bends = rings.attach(shape, np.int32)
        self._bent = rings.attach(shape, np.int8)
        self._alarms = rings.attach((rings.sensors, _QUIET_BLOCKS + 1), np.uint8)  # one bit a detector
        drift_sums = blocks.DRIFT_SUMS if rings.window >= FEWEST_OF_DRIFT else ()
        self._drift: list[RowArray[Any]] = [rings.attach((rings.sensors, length), kind) for length, kind in drift_sums]
        clock_sums = [rings.attach((rings.sensors, length), kind) for length, kind in blocks.CLOCK_SUMS]
        self._clock: list[RowArray[Any]] = clock_sums
        self._begun = rings.attach((), np.int64)  # 1 + the first step with a reading; 0: none yet
        self._block: int | None = None  # newest block
        self._dark_age = min(rules.max_gap, rules.window - BLOCK - 1)  # a group is dark beyond it

    @property
    def judges(self) -> bool:
        """Whether there are habits to judge by now."""
        return self._habits() is not None

    def faulty_rows(self, rows: slice) -> NDArray[np.bool_]:
        """Find the sensors that are faulty by any detector, for some rows of the rings, bool [rows, C]."""
        found: NDArray[np.bool_] = self._held(rows) != 0
        return found

    def faulty(self) -> Counter[str]:
        """Number of sensors that are faulty by each detector."""
        held = self._held(slice(len(self._rings.groups)))
        return Counter({name: int((held & _bit(name) != 0).sum()) for name in DETECTORS})

    def faulty_of(self, group: int) -> dict[int, list[str]]:
        """The detectors by which sensors of a group are faulty, by the sensor's index."""
        found: dict[int, list[str]] = {}
        for held in self._held(np.flatnonzero(self._rings.codes == group)):
            for sensor in np.flatnonzero(held).tolist():
                found[sensor] = [name for name in DETECTORS if held[sensor] & _bit(name)]
        return found

    def _held(self, rows: slice | Ints) -> NDArray[np.uint8]:
        """The detectors by which sensors are faulty, one bit each, [rows, C]."""
        return _recent(self._alarms.array[rows], self._block or 0)

    def close(self, lookback: LookBack) -> list[SensorEvent]:
        """Judge the block that ends with a step; other steps, and those without habits, have no event."""
        if (lookback.step + 1) % BLOCK or not self._rings.groups:
            return []
        habits = self._habits()
        if habits is None:
            return []
        block = lookback.step // BLOCK
        self._enter(block)
        found = self._found(habits, lookback, block)
        return self._events(habits, lookback, block, found)

    def _enter(self, block: int) -> None:
        """Clear the slots of this block and of those that were skipped."""
        skipped = 0 if self._block is None else block - self._block - 1
        arrays: list[RowArray[Any]] = [self._spikes, self._bends, self._bent, self._alarms, *self._clock, *self._drift]
        for array in arrays:
            length = array.array.shape[2]
            slots = [number % length for number in range(block - min(skipped, length - 1), block + 1)]
            array.array[: len(self._rings.groups), :, slots] = 0
        self._block = block

    def _found(self, habits: LiveHabits, lookback: LookBack, block: int) -> dict[str, Found]:
        rings, step, rows = self._rings, lookback.step, len(self._rings.groups)
        begun = self._begun.array[:rows]
        new = (begun == 0) & (lookback.group_age < self._rules.window)
        if new.any():
            oldest = lookback.observed[new].any(axis=1).argmax(axis=1)
            begun[new] = step - self._rules.window + 2 + oldest
        values = rings.past(rings.values, slice(rows), step, live.PEAK_STEPS)
        of_block = live.jumps_of_block(habits, values, lookback.observed[..., -live.PEAK_STEPS :])
        slot = block % live.WINDOW_BLOCKS
        sums = []
        kept: tuple[RowArray[Any], ...] = (self._spikes, self._bends, self._bent)
        for attached, now in zip(kept, (of_block.spikes, of_block.bends, of_block.bent), strict=True):
            attached.array[:rows, :, slot] = now
            sums.append(attached.array[:rows].sum(axis=2, dtype=np.int64))
        place = self._place(habits)
        known, judged = place < len(habits.row_of), habits.judged[place]
        candidates = live.may_be_stuck(values[..., -3:], lookback.observed)
        candidates &= judged & (habits.limit["runs"] < self._rules.window)
        found = {
            "silence": live.silence(habits, lookback.age, step + 2 - begun, known, judged),
            "gaps": live.gaps(habits, lookback.observed),
            "jumps": live.jumps(habits, of_block, *sums),
        }
        moved = np.zeros(judged.shape, np.bool_)
        if self._drift and habits.judges_drift:
            doubted = partial(self._doubted, habits, lookback, found["jumps"].alarm)
            newest = values[..., -BLOCK:], lookback.observed[..., -BLOCK:]
            found["drift"] = blocks.drifts(habits, _first(self._drift, rows), block, *newest, place, doubted)
            moved = found["drift"].alarm
        if habits.judges_clock:
            stamps = rings.past(rings.stamp_ms, slice(rows), step, blocks.CLOCK_STEPS) / self._rules.step_ms
            seen = lookback.observed[..., -blocks.CLOCK_STEPS :]
            found["clock"] = blocks.clocks(habits, _first(self._clock, rows), block, stamps, seen)
        outage = np.count_nonzero(found["silence"].alarm & judged, axis=1) > 1
        found["runs"] = self._stuck(habits, step, lookback, candidates, moved, outage)
        return found

    def _doubted(self, habits: LiveHabits, lookback: LookBack, jumps: Bools, row: int) -> Bools:
        """Find the sensors of a row that jump, or are or were stuck in the window, bool [C]: they estimate no other."""
        values = self._rings.past(self._rings.values, slice(row, row + 1), lookback.step)[0]
        doubted: Bools = jumps[row] | live.was_stuck(habits, values, lookback.observed[row])
        return doubted

    def _place(self, habits: LiveHabits) -> Ints:
        """Row of each group in the habits, int64 [R]."""
        unknown = len(habits.row_of)
        return np.array([habits.row_of.get(self._names[code], unknown) for code in self._rings.groups], np.int64)

    def _stuck(
        self, habits: LiveHabits, step: int, lookback: LookBack, candidates: Bools, moved: Bools, outage: Bools
    ) -> Found:
        rows = np.flatnonzero(candidates.any(axis=1))
        values = self._rings.past(self._rings.values, rows, step)
        found = live.stuck(habits, values, lookback.observed[rows], candidates[rows], moved[rows], outage[rows])
        if len(rows) == len(candidates):
            return found
        none = np.zeros(candidates.shape)
        limit = np.broadcast_to(habits.limit["runs"], candidates.shape)
        of_all = Found(none > 0, none, limit, none.astype(np.int64), none > 0)
        for name in ("alarm", "statistic", "age", "special"):
            getattr(of_all, name)[rows] = getattr(found, name)
        return of_all

    def _events(self, habits: LiveHabits, lookback: LookBack, block: int, found: dict[str, Found]) -> list[SensorEvent]:
        rows = len(self._rings.groups)
        alarms = self._alarms.array[:rows]
        judged = habits.judged[self._place(habits)]
        dark = lookback.group_age > self._dark_age
        before = np.bitwise_or.reduce(alarms, axis=2)  # the slot of this block is empty
        now = np.zeros(before.shape, np.uint8)
        for name, each in found.items():
            now |= np.where(each.alarm & judged & ~dark[:, None], _bit(name), np.uint8(0))
        alarms[:, :, block % alarms.shape[2]] = now
        alarms[dark] = 0
        recent = _recent(alarms, block)
        begins, ends = now & ~before, before & ~recent
        events: list[SensorEvent] = []
        # By name: rows follow the order in which groups spoke, which a rebuild may begin in the middle of.
        changed = np.flatnonzero((begins | ends).any(axis=1)).tolist()
        for row in sorted(changed, key=lambda row: self._names[self._rings.groups[row]]):
            for name in DETECTORS:
                begin, end = (np.flatnonzero(each[row] & _bit(name)) for each in (begins, ends))
                if len(end):
                    silent = int(lookback.group_age[row]) if dark[row] else QUIET
                    events.append(self._end(row, name, end, lookback.step, silent))
                for members in self._begun_together(name, begin, found[name].age[row]) if len(begin) else ():
                    events.append(self._begin(habits, row, name, members, lookback.step, found[name]))
        return events

    def _begun_together(self, detector: str, begin: Ints, age: Ints) -> list[Ints]:
        if detector not in _TOGETHER:
            return [begin]
        among = np.zeros(len(age), np.bool_)
        among[begin] = True
        return runs.began_together(-age, among)

    def _begin(
        self, habits: LiveHabits, row: int, detector: str, members: Ints, step: int, found: Found
    ) -> SensorEvent:
        score = found.statistic[row, members] / found.limit[row, members]
        strongest = int(members[score.argmax()])
        special = found.special[row, members]
        kind = kind_of(detector, len(members), special)
        limit = float(found.limit[row, strongest])
        of = detector
        if detector == "jumps":  # its statistic is that of chatter or of spiking
            of = "chatter" if limit == habits.limit["chatter"][strongest] else "spiking"
        return SensorEvent(
            self._rules.model_index,
            self._rings.groups[row],
            detector,
            kind,
            tuple(members.tolist()),
            step * self._rules.step_ms,
            since_ms=(step - int(found.age[row, members].max())) * self._rules.step_ms,
            strongest=strongest,
            statistic=float(found.statistic[row, strongest]),
            threshold=limit,
            usual=float(habits.habits.unit[of][strongest]),
        )

    def _end(self, row: int, detector: str, members: Ints, step: int, quiet: int) -> SensorEvent:
        """Make the event of an end, `quiet` steps after the fault."""
        return SensorEvent(
            self._rules.model_index,
            self._rings.groups[row],
            detector,
            None,
            tuple(members.tolist()),
            step * self._rules.step_ms,
            until_ms=(step + 1 - quiet) * self._rules.step_ms,
        )


def _recent(alarms: NDArray[np.uint8], block: int) -> NDArray[np.uint8]:
    """Select the alarms [rows, C, slots] in the quiet time that ends with a block, as bits [rows, C]."""
    outside = (block + 1) % alarms.shape[2]
    before = np.bitwise_or.reduce(alarms[:, :, :outside], axis=2)
    found: NDArray[np.uint8] = before | np.bitwise_or.reduce(alarms[:, :, outside + 1 :], axis=2)
    return found


def _first(sums: Sequence[RowArray[Any]], rows: int) -> list[NDArray[Any]]:
    return [each.array[:rows] for each in sums]


def _bit(detector: str) -> np.uint8:
    return _BITS[detector]
