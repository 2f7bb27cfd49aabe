"""One number for each sensor and step of a partition, and arithmetic on sorted arrays of these keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.operate.audit.report import Finding, Offence

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one partition: ascending with the step, one sensor of a group after the other."""

    partition: int
    columns: ModelColumns
    base: int  # the lowest step
    span: int  # number of keys of one sensor

    @classmethod
    def over(cls, partition: int, columns: ModelColumns, *steps: Ints) -> Keys:
        """Keys for all of these steps, and for holes that reach max_gap steps beyond the last one."""
        base = min((int(each.min()) for each in steps if len(each)), default=0)
        # Without room for those holes a sensor's keys would run into the next one's.
        top = max((int(each.max()) for each in steps if len(each)), default=0) + int(columns.max_gap.max()) + 1
        return cls(partition, columns, base, top - base + 1)

    def of(self, group: NDArray[np.integer[Any]], sensor: NDArray[np.integer[Any]], step: Ints) -> Ints:
        """Keys of group codes, sensor rows and steps, int64 [n]."""
        cell = group.astype(np.int64) * self.columns.width + sensor
        return cell * self.span + (step - self.base)

    def cell(self, key: Ints) -> Ints:
        """Number of the group's sensor, `group * width + sensor`."""
        return key // self.span

    def step(self, key: Ints) -> Ints:
        """Step of each key."""
        return key % self.span + self.base

    def model(self, key: Ints) -> Ints:
        """Model of each key."""
        return self.columns.model_of_group()[self.cell(key) // self.columns.width]

    def cadence(self, key: Ints) -> Ints:
        """Steps in the interval of each key's sensor."""
        return self.columns.cadence[self.model(key), self.cell(key) % self.columns.width]

    def finding(
        self,
        broken: Ints,
        detail: str | Callable[[int], str],
        *,
        examples: int,
        offset: Ints | None = None,
    ) -> Finding:
        """A finding about keys.

        Args:
            broken: the keys that break a rule, int64 [n].
            detail: text of every offence, or a function of an index of `broken`.
            examples: most offences of the finding.
            offset: offset of each key's first record, int64 [n].
        """
        first = []
        for at, key in enumerate(broken[:examples].tolist()):
            cell, step = divmod(key, self.span)
            code, row = divmod(cell, self.columns.width)
            group, sensor = self.columns.names(code, row)
            ts_ms = (step + self.base) * int(self.columns.step_ms[self.columns.model_of_group()[code]])
            text = detail if isinstance(detail, str) else detail(at)
            of_record = None if offset is None else int(offset[at])
            first.append(Offence(self.partition, group, sensor, ts_ms, of_record, detail=text))
        return Finding(len(broken), first)


def run_starts(ascending: Ints) -> Ints:
    """Places at which a run of equal values begins."""
    if len(ascending) == 0:
        return np.empty(0, np.int64)
    return np.concatenate([[0], np.flatnonzero(np.diff(ascending)) + 1])


def distinct(keys: Ints) -> Ints:
    """Each key once, ascending. By sorting: numpy's own `unique` hashes, 5 times slower for millions of keys."""
    ascending = np.sort(keys)
    return ascending[run_starts(ascending)]


def is_among(values: Ints, ascending: Ints) -> Bools:
    """True where a value is in `ascending`."""
    if len(ascending) == 0:
        return np.zeros(len(values), np.bool_)
    place = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    found: Bools = ascending[place] == values
    return found


def count_up(lengths: Ints) -> Ints:
    """0, 1, ... up to each length in turn: [2, 3] -> [0, 1, 0, 1, 2]."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
