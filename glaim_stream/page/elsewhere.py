"""Groups of other workers, from the quality topic: the newest record of each, in a few hundred bytes."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Set
from dataclasses import dataclass
from threading import Lock
from typing import Any

from glaim_stream.output.quality import group_of_key

MOST_GROUPS = 10_000  # groups with the newest records; 0.5 kB each


@dataclass(frozen=True, slots=True)
class Other:
    """The newest record of a group; `detail` is the JSON that the page shows."""

    partition: int
    key: bytes
    end: str  # end of the record's stretch
    coverage: float | None
    detail: str


class Elsewhere:
    """The newest record on hidden readings for each group on the topic."""

    def __init__(self, most: int = MOST_GROUPS) -> None:
        """Start without groups; at most `most` are kept."""
        self._most = most
        self._lock = Lock()
        self._groups: OrderedDict[str, Other] = OrderedDict()
        self.version = 0

    def take(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Take the next message of a partition; anything but a record of hidden readings is ignored."""
        if key is None:
            return
        if value is None:
            self._delete(partition, key)
            return
        try:
            document = json.loads(value)
            if document["source"] != "hidden":
                return
            group, other = str(document["group"]), _other(partition, key, document)
        except (ValueError, TypeError, KeyError, ZeroDivisionError):
            return
        with self._lock:
            before = self._groups.get(group)
            if before is not None and before.partition == partition and before.end > other.end:
                return
            self._groups.pop(group, None)
            self._groups[group] = other
            while len(self._groups) > self._most:
                self._groups.popitem(last=False)
            self.version += 1

    def _delete(self, partition: int, key: bytes) -> None:
        group = group_of_key(key)
        with self._lock:
            other = self._groups.get(group or "")
            if group is not None and other is not None and (other.partition, other.key) == (partition, key):
                del self._groups[group]
                self.version += 1

    def of(self, group: str) -> Other | None:
        """The newest record of a group; None without one."""
        with self._lock:
            return self._groups.get(group)

    def outside(self, partitions: Set[int]) -> list[tuple[str, Other]]:
        """The groups in other partitions, by name."""
        with self._lock:
            found = [(name, other) for name, other in self._groups.items() if other.partition not in partitions]
        return sorted(found)


def _other(partition: int, key: bytes, document: dict[str, Any]) -> Other:
    sensors: dict[str, list[float]] = {}  # count, sum of errors, intervals, intervals that held
    for each in document["sensors"]:
        sums = sensors.setdefault(str(each["sensor"]), [0.0] * 4)
        published = each["methods"]["published"]
        sums[0] += published["count"]
        sums[1] += published["count"] * published["mae"]
        sums[2] += each["intervals"]
        sums[3] += each["intervals"] * (each["coverage"] or 0.0)
    intervals, held = (sum(sums[place] for sums in sensors.values()) for place in (2, 3))
    regret = document.get("regret") or {}
    scaled = regret.get("scaled_mae") or {}
    detail = {
        "model": document["model"],
        "partition": partition,
        "from": document["from"],
        "to": document["to"],
        "scaled": scaled.get("published"),
        "regret": regret.get("share"),
        "best": regret.get("best"),
        "sensors": [
            [name, count, error / count, held / intervals if intervals else None]
            for name, (count, error, intervals, held) in sensors.items()
        ],
    }
    coverage = held / intervals if intervals else None
    return Other(partition, key, str(document["to"]), coverage, json.dumps(detail, separators=(",", ":")))
