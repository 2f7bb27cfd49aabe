"""Rejected readings and records, with their causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

_FEW = 100  # up to this many rows, each has a detail of its own


class DeadLetterCause(StrEnum):
    """The cause that sent a reading or a whole record to the dead-letter topic."""

    UNREADABLE = "unreadable"  # not a record of Kafka's format, or more than max_unpacked_bytes
    UNDECODABLE = "undecodable"  # not the JSON or Arrow that its content-type announces
    MALFORMED = "malformed"  # a field is missing or has the wrong type
    TOO_LARGE = "too-large"  # takes more memory than the budget of one record
    UNKNOWN_GROUP = "unknown-group"
    TOO_MANY_GROUPS = "too-many-groups"  # a new group, and the partition has as many as its budget allows
    UNKNOWN_SENSOR = "unknown-sensor"
    BAD_TIME = "bad-time"  # no time, a time without a zone, or one outside the years 1900 to 2200
    TS_UNIT = "ts-unit"  # a number that is no plausible time in milliseconds, but one in another unit
    FUTURE = "future"  # stamped further ahead of its record than allowed, or beyond the wall clock with it
    INEXACT = "inexact"  # an integer that a float of 64 bits cannot hold
    OUT_OF_LIMITS = "out-of-limits"  # infinite, or outside the sensor's physical limits
    TOO_LATE = "too-late"  # older than the window; goes to a separate topic
    PROCESSING = "processing"  # an internal error of the worker; kept for requeueing


@dataclass(frozen=True, slots=True, eq=False)
class MoreReadings:
    """Further rejected readings of the same record, cause and detail: an object for each would take 300 bytes."""

    positions: NDArray[np.integer]
    late_by_ms: NDArray[np.int64] | None = None  # [positions]


@dataclass(frozen=True, slots=True)
class Reject:
    """An unusable reading, several of one record, or the whole record if `position` is None."""

    offset: int
    cause: DeadLetterCause
    detail: str
    position: int | None = None
    late_by_ms: int | None = None  # distance behind the watermark of a reading that is too late
    more: MoreReadings | None = None

    @property
    def count(self) -> int:
        """Number of readings; a whole record counts as one."""
        return 1 if self.more is None else 1 + len(self.more.positions)

    @property
    def positions(self) -> NDArray[np.int64]:
        """Position of each reading in the record; -1 for the whole record."""
        first = np.array([-1 if self.position is None else self.position], np.int64)
        return first if self.more is None else np.append(first, self.more.positions)


def alike(rows: NDArray[np.int64], *keys: NDArray[np.integer]) -> Iterator[NDArray[np.int64]]:
    """Group rows that agree in all keys; one by one where there are few.

    An object and a detail for each reading take 300 bytes and 20 us, and a record of a thousand bytes may hold a
    million readings.

    Args:
        rows: ascending, int64 [n].
        keys: each [n].

    Yields:
        The rows of each group, ascending; the groups in order of their first rows.
    """
    if len(rows) <= _FEW:
        yield from rows[:, None]
        return
    order = np.lexsort((rows, *keys))
    new = np.zeros(len(rows), np.bool_)
    new[0] = True
    for key in keys:
        new[1:] |= np.diff(key[order]) != 0
    starts = np.flatnonzero(new)
    first = np.argsort(order[starts])  # `order` indexes rows, which ascend
    ends = np.append(starts[1:], len(rows))
    for group in first.tolist():
        yield rows[order[starts[group] : ends[group]]]


def first_of_records(rejects: Iterable[Reject]) -> list[Reject]:
    """The first reject of each record, in order."""
    first: dict[int, Reject] = {}
    for reject in rejects:
        first.setdefault(reject.offset, reject)
    return list(first.values())


def causes_said(causes: Counter[DeadLetterCause], examples: Mapping[DeadLetterCause, str]) -> str:
    """The three most frequent causes with their numbers, and the example of the first of them."""
    most = causes.most_common(3)
    named = ", ".join(f"{cause.value} {count}" for cause, count in most)
    return f"{named}; for example {examples[most[0][0]]}"


def too_many(unusable: int, records: int, share: float, minutes: float) -> bool:
    """Whether more records were unusable than a share that is expected, beyond chance.

    Few are never too many: 4, or 2 a minute unless they are more than half of the records. Five standard deviations
    beyond the share happen by chance once in years.

    Args:
        unusable: number of the records that were rejected, in whole or in part.
        records: number of all records.
        share: expected share, 0 to 1.
        minutes: time in which they came.
    """
    beyond_chance: bool = unusable > share * records + 5 * (share * (1 - share) * records) ** 0.5
    return unusable > 4 and beyond_chance and (unusable > 2 * minutes or 2 * unusable > records)
