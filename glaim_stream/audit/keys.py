"""What a partition's input promises, as columns of keys: one number for each sensor and step. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from glaim_stream.audit.columns import Cells, Letters, OutputRows
from glaim_stream.audit.outages import Told
from glaim_stream.audit.report import Finding, Offence
from glaim_stream.decode.dead_letters import Reject
from glaim_stream.decode.readings import Readings

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_WARM_UP_READINGS = 1000


@dataclass(frozen=True, slots=True)
class Commit:
    """What the consumer group committed for a partition; `rebuild_from` None where another tool committed."""

    offset: int
    rebuild_from: int | None


@dataclass(frozen=True, slots=True)
class PartitionInput:
    """Everything known of one partition."""

    partition: int
    begin: int  # lowest offset that was read
    end: int  # the offset after the last one read
    complete: bool  # nothing before `begin` was ever left out
    readings: Readings
    rejects: Sequence[Reject]
    letters: Letters
    rows: OutputRows
    commit: Commit | None
    judge_until: int | None = None  # only keys with a reading below this offset are judged
    told: set[Told] | None = None  # events of the outage topic; None: there is no such topic


@dataclass(slots=True)
class PartitionAudit:
    """What was found in one partition."""

    counts: dict[str, int] = field(default_factory=dict)
    problems: dict[str, Finding] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Expected:
    """Keys that the input promises, ascending; arrays of length k."""

    key: Ints
    value: NDArray[np.float32]
    mean: Bools  # the value is a mean, and rounding may differ in the last bit
    first_offset: Ints  # lowest offset of the key's readings
    last_offset: Ints
    start: Ints  # place of the key's first reading in `sorted_value`
    count: Ints  # how many readings
    on_time: Bools  # one of its readings came before its step closed
    sorted_value: NDArray[np.float32]  # values of all readings by key
    stamp_ms: Ints  # time of the reading that stands for the step; of a mean, of the latest
    quality: NDArray[np.int8]  # its quality; of a mean, the worst


class PartitionKeys:
    """One partition's readings and rows by key, and the findings that gather about them."""

    def __init__(self, given: PartitionInput, cells: Cells, *, examples: int = 5) -> None:
        self._given = given
        self._cells = cells
        self._examples = examples
        self.audit = PartitionAudit()
        self._committed = given.commit.offset if given.commit is not None else given.end
        lettered = given.letters.holds(given.readings.offset, given.readings.position)
        self._lettered = given.readings.where(lettered)
        self._readings = given.readings.where(~lettered)
        self._step = self._readings.event_time_ms // cells.step_ms[self._readings.model]
        steps = [self._step, given.rows.step, self._lettered.event_time_ms // cells.step_ms[self._lettered.model]]
        self._base = min((int(each.min()) for each in steps if len(each)), default=0)
        # Holes reach max_gap steps beyond a cell's last reading, and a cell's keys must not run into the next one's.
        top = max((int(each.max()) for each in steps if len(each)), default=0) + int(cells.max_gap.max()) + 1
        self._span = top - self._base + 1

    def _expected(self, usable: Bools, on_time: Bools) -> Expected:
        readings = self._readings.where(usable)
        unsorted = self._key(readings.group, readings.sensor, self._step[usable])
        # By event time inside the step, then by arrival: the last one stands for the step.
        order = np.lexsort((np.arange(len(unsorted)), readings.event_time_ms, unsorted))
        key, value, offset = unsorted[order], readings.value[order], readings.offset[order]
        start = starts(key)
        if len(start) == 0:
            none = np.empty(0, np.int64)
            blank = np.empty(0, np.bool_)
            return Expected(none, value, blank, none, none, none, none, blank, value, none, readings.quality)
        count = np.diff(np.append(start, len(key)))
        quality = readings.quality[order]
        last = value[start + count - 1]
        mean = self._cells.mean[readings.model[order][start]]
        # Summed in order of arrival, as the windows do.
        arrival = np.argsort(unsorted, kind="stable")
        means = np.add.reduceat(readings.value[arrival].astype(np.float64), start) / count
        return Expected(
            key[start],
            np.where(mean, means.astype(np.float32), last),
            mean,
            np.minimum.reduceat(offset, start),
            np.maximum.reduceat(offset, start),
            start,
            count,
            np.logical_or.reduceat(on_time[usable][order], start),
            value,
            readings.event_time_ms[order][start + count - 1],
            np.where(mean, np.maximum.reduceat(quality, start), quality[start + count - 1]),
        )

    def _surely_whole(self, expected: Expected) -> Bools:
        """Where no reading of the key can lie before the range that was read."""
        if self._given.complete or len(self._readings) == 0:
            return np.ones(len(expected.key), np.bool_)
        first_ms = int(self._readings.event_time_ms[:_WARM_UP_READINGS].max())
        model = self._model_of(expected.key)
        sure_from = (first_ms + self._cells.lateness_ms) // self._cells.step_ms + 1
        whole: Bools = self._step_of(expected.key) >= sure_from[model]
        return whole

    def _key(self, group: NDArray[np.int32], sensor: NDArray[np.int32], step: Ints) -> Ints:
        cell = group.astype(np.int64) * self._cells.width + sensor
        return cell * self._span + (step - self._base)

    def _cell_of(self, key: Ints) -> Ints:
        return key // self._span

    def _step_of(self, key: Ints) -> Ints:
        return key % self._span + self._base

    def _model_of(self, key: Ints) -> Ints:
        return self._cells.model_of_group()[self._cell_of(key) // self._cells.width]

    def _keys(self, expected: Expected, which: Bools, detail: str) -> list[Offence]:
        return [
            self._offence(int(expected.key[each]), int(expected.first_offset[each]), detail)
            for each in np.flatnonzero(which)[: self._examples].tolist()
        ]

    def _offence(self, key: int, offset: int | None, detail: str) -> Offence:
        cell, step = key // self._span, key % self._span + self._base
        group, sensor = self._cells.names(cell // self._cells.width, cell % self._cells.width)
        model = int(self._cells.model_of_group()[cell // self._cells.width])
        return Offence(
            self._given.partition, group, sensor, step * int(self._cells.step_ms[model]), offset, detail=detail
        )

    def _problem(self, name: str, count: int, offences: Sequence[Offence]) -> None:
        self.audit.problems[name] = Finding(count, list(offences[: self._examples]) if count else [])

    def _count(self, **counts: int) -> None:
        self.audit.counts.update(counts)


def starts(ascending: Ints) -> Ints:
    """Places at which a run of equal values begins."""
    if len(ascending) == 0:
        return np.empty(0, np.int64)
    return np.concatenate([[0], np.flatnonzero(np.diff(ascending)) + 1])


def distinct(keys: Ints) -> Ints:
    """Each key once, ascending. By sorting: numpy's own `unique` hashes, 5 times slower for millions of keys."""
    ascending = np.sort(keys)
    return ascending[starts(ascending)]


def among(values: Ints, ascending: Ints) -> Bools:
    """Where a value is one of `ascending`."""
    if len(ascending) == 0:
        return np.zeros(len(values), np.bool_)
    place = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    found: Bools = ascending[place] == values
    return found


def ramps(lengths: Ints) -> Ints:
    """0, 1, ... for each length in turn."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)


def merged(audits: Sequence[PartitionAudit], *, examples: int = 5) -> tuple[dict[str, int], Mapping[str, Finding]]:
    """Counts and problems of several partitions together."""
    counts: dict[str, int] = {}
    problems: dict[str, Finding] = {}
    for audit in audits:
        for name, count in audit.counts.items():
            counts[name] = counts.get(name, 0) + count
        for name, finding in audit.problems.items():
            whole = problems.setdefault(name, Finding(0, []))
            whole.count += finding.count
            whole.first = [*whole.first, *finding.first][:examples]
    return counts, problems
