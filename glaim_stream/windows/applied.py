"""The effects of a batch of records, or of one slice of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.readings import Readings
from glaim_stream.core.rejects import DeadLetterCause, MoreReadings, Reject, alike
from glaim_stream.windows.closed import Closed
from glaim_stream.windows.outages import Outage
from glaim_stream.windows.probes import Probes
from glaim_stream.windows.sensor_health import SensorEvent


@dataclass(slots=True, weakref_slot=True, eq=False)
class Applied:
    """The effects of a batch of records, of a slice of it, or of the wall clock.

    The last slice of a batch has the rejects of all its records, and the counts.
    """

    closed: list[Closed] = field(default_factory=list)  # one per model that closed a step or corrected one
    rejects: list[Reject] = field(default_factory=list)
    readings: int = 0  # readings that went into windows
    dropouts: int = 0  # readings without a value
    superseded: int = 0  # readings that changed nothing: repeated, or older than the one that the step holds
    probes: list[Probes] = field(default_factory=list)  # known values hidden to score the experts: by model and step
    outages: list[Outage] = field(default_factory=list)  # model by model, in the order of steps
    health: list[SensorEvent] = field(default_factory=list)  # model by model, in the order of steps
    skewed: int = 0  # readings stamped ahead of their record's time
    due_rows: int = 0  # observed rows that must be among those of `closed`, counted as the readings came
    until: int = 0  # number of the batch's records that are applied completely; the last slice of a batch has all
    last: bool = True  # whether this is the last slice of its readings

    def group_codes(self) -> list[NDArray[np.int32]]:
        """Codes of the groups of its rows, probes, outages and events of sensor health."""
        codes = [each.group for each in self.closed] + [each.group for each in self.probes]
        events = [each.group for each in self.outages] + [each.group for each in self.health]
        return [*codes, np.array(events, np.int32)]


def joined_applied(parts: Sequence[Applied]) -> Applied:
    """Join the effects of several slices or batches into one."""
    joined = {each.name: getattr(Applied(), each.name) for each in fields(Applied)}
    for part in parts:
        joined = {name: so_far + getattr(part, name) for name, so_far in joined.items()}
    return Applied(**joined | {"until": parts[-1].until if parts else 0, "last": True})


def rejects_of(
    readings: Readings, cause: DeadLetterCause, detail: str, late_by_ms: NDArray[np.int64] | None = None
) -> Iterator[Reject]:
    """Yield the rejects of readings that the windows refuse; if these are many, one per record.

    Args:
        readings: n readings to reject.
        cause: cause of every reject.
        detail: text of every reject; `{}` in it stands for the first reading's lateness in seconds.
        late_by_ms: [n] distance behind the watermark when each reading arrived; None: they are not late.
    """
    for rows in alike(np.arange(len(readings)), readings.offset):
        offset, position = int(readings.offset[rows[0]]), readings.position[rows]
        late = None if late_by_ms is None else late_by_ms[rows]
        text, first_late = detail, None
        if late is not None:
            first_late = int(late[0])
            text = detail.format(f"{first_late / 1000:.0f}")
        more = MoreReadings(position[1:], None if late is None else late[1:]) if len(rows) > 1 else None
        yield Reject(offset, cause, text, int(position[0]), first_late, more)
