"""What a batch of records causes in the windows: whole, or one slice of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core import metrics
from glaim_stream.core.readings import Readings
from glaim_stream.decode import DeadLetterCause, MoreReadings, Reject, alike
from glaim_stream.windows import Closed, FeedResult, Outage, Probes, SensorEvent


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Applied:
    """What a batch of records caused, or a slice of it."""

    closed: list[Closed]
    rejects: list[Reject]
    readings: int = 0  # that went into windows
    dropouts: int = 0  # of these, readings without a value
    superseded: int = 0  # of these, readings replaced by another one of the same sensor and step
    probes: list[Probes] = field(default_factory=list)  # known values that are hidden to score the experts
    outages: list[Outage] = field(default_factory=list)
    health: list[SensorEvent] = field(default_factory=list)
    skewed: int = 0  # readings stamped ahead of their record's time
    due_rows: int = 0  # observed rows that must be among those of `closed`, counted as the readings came
    until: int = 0  # number of the batch's records that are applied completely; the last slice of a batch has all

    def group_codes(self) -> list[NDArray[np.int32]]:
        """Codes of the groups of its rows, probes, outages and events of sensor health."""
        codes = [each.group for each in self.closed] + [each.group for each in self.probes]
        events = [each.group for each in self.outages] + [each.group for each in self.health]
        return [*codes, np.array(events, np.int32)]


def joined_applied(parts: Sequence[Applied]) -> Applied:
    """What several slices or batches caused, as one."""
    joined = {each.name: getattr(Applied([], []), each.name) for each in fields(Applied)}
    for part in parts:
        joined = {name: so_far + getattr(part, name) for name, so_far in joined.items()}
    return Applied(**joined | {"until": parts[-1].until if parts else 0})


def timed(slices: Iterator[Applied]) -> Iterator[Applied]:
    """The same slices; the time that each takes is observed."""
    while True:
        start_s = time.perf_counter()
        applied = next(slices, None)
        if applied is None:
            return
        metrics.apply_seconds.observe(time.perf_counter() - start_s)
        yield applied


def unapplied(fed: FeedResult, most_groups: int) -> Iterator[Reject]:
    """Yield the rejects of the readings that the windows did not take."""
    late, refused = fed.too_late, fed.refused
    for rows in alike(np.arange(len(late)), late.offset):
        late_by_ms = int(fed.late_by_ms[rows[0]])
        detail = f"{late_by_ms / 1000:.0f} s behind the watermark of its partition, older than the window"
        yield _reject(late, rows, DeadLetterCause.TOO_LATE, detail, fed.late_by_ms)
    detail = f"a new group, and the partition has {most_groups}, as many as GLAIM_PARTITION_GROUPS allows"
    for rows in alike(np.arange(len(refused)), refused.offset):
        yield _reject(refused, rows, DeadLetterCause.TOO_MANY_GROUPS, detail)


def _reject(
    readings: Readings,
    rows: NDArray[np.int64],
    cause: DeadLetterCause,
    detail: str,
    late_by_ms: NDArray[np.int64] | None = None,
) -> Reject:
    """Reject the given rows, which are of one record."""
    first, rest = int(rows[0]), rows[1:]
    more = None
    if len(rest):
        more = MoreReadings(readings.position[rest], None if late_by_ms is None else late_by_ms[rest])
    late_by = None if late_by_ms is None else int(late_by_ms[first])
    return Reject(int(readings.offset[first]), cause, detail, int(readings.position[first]), late_by, more)
