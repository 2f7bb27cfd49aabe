"""Events about sensors of one group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.times import text_of_ms


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
