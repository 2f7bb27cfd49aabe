"""The newest events of sensor health of each group, from beginning to end.

They come from the worker's own output, and from the topic, which also has those of other and earlier workers. The
same event may come from both, and again after a crash: its `id` is the same. A topic may hold anything, so messages
that are not such events are ignored, and memory is bounded by bytes.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from glaim_stream.core.errors import GlaimError
from glaim_stream.core.times import EARLIEST_MS, LATEST_MS, moment_ms

MOST_BYTES = 1_000_000  # bytes of messages; the kept events take about as much
MOST_OF_GROUP = 16  # events of a group
NEWEST = 2_000  # records of each partition to read at the start

Now = Mapping[str, Sequence[str]]  # detectors that find each sensor faulty


@dataclass(slots=True)
class FaultEvent:
    """The beginning of a fault of a group's sensors; times in ms since the epoch.

    going: sensors that are still faulty by the events so far.
    """

    group: str
    partition: int
    detector: str
    kind: str
    sensors: tuple[str, ...]
    ts_ms: int
    since_ms: int
    measured: dict[str, Any] | None
    size: int
    until_ms: int | None = None
    going: set[str] = field(default_factory=set)

    def document(self, now: Now | None) -> dict[str, Any]:
        """Return the event as JSON.

        Args:
            now: faulty sensors by the worker's windows; None: the group is another worker's.
        """
        going = [name for name in self.sensors if name in self.going and _holds(now, name, self.detector)]
        return {
            "detector": self.detector,
            "kind": self.kind,
            "sensors": self.sensors,
            "since_ms": self.since_ms,
            "until_ms": self.until_ms,
            "going": going,
            "measured": self.measured,
        }


class FaultLog:
    """The newest events, in the order of their arrival."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        """Start without events; beyond `most_bytes` the oldest ones are dropped."""
        self._most_bytes, self._bytes = most_bytes, 0
        self._lock = Lock()
        self._events: OrderedDict[str, FaultEvent] = OrderedDict()
        self._of_group: dict[str, list[str]] = {}
        self.version = 0

    def take(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Take a message of the topic; anything but an event of sensor health is ignored."""
        if value is None or len(value) > self._most_bytes // MOST_OF_GROUP:
            return
        try:
            document = json.loads(value)
            begins = document["state"] == "begin"
            if begins:
                name, event = _event(document, partition, len(value))
            else:
                group, detector, ts_ms = str(document["group"]), str(document["detector"]), _moment_ms(document["ts"])
                sensors, until_ms = _names(document["sensors"]), _moment_ms(document["until"])
        except (GlaimError, ValueError, TypeError, KeyError, ArithmeticError, OSError):
            return
        with self._lock:
            self.version += 1
            if begins:
                self._begin(name, event)
            else:
                self._end(group, detector, ts_ms, sensors, until_ms)

    def _begin(self, name: str, event: FaultEvent) -> None:
        if name in self._events:
            return
        self._events[name] = event
        self._bytes += event.size
        of_group = self._of_group.setdefault(event.group, [])
        of_group.append(name)
        if len(of_group) > MOST_OF_GROUP:
            self._forget(of_group[0])
        while self._bytes > self._most_bytes:
            self._forget(next(iter(self._events)))

    def _forget(self, name: str) -> None:
        event = self._events.pop(name)
        self._bytes -= event.size
        self._of_group[event.group].remove(name)
        if not self._of_group[event.group]:
            del self._of_group[event.group]

    def _end(self, group: str, detector: str, ts_ms: int, sensors: Sequence[str], until_ms: int) -> None:
        for name in self._of_group.get(group, ()):
            event = self._events[name]
            if event.detector == detector and event.ts_ms <= ts_ms and event.going & set(sensors):
                event.going -= set(sensors)
                event.until_ms = max(until_ms, event.until_ms or until_ms)

    def of(self, group: str, now: Now | None = None) -> list[dict[str, Any]]:
        """The events of a group as JSON, the newest first, and faults without a known beginning.

        Args:
            group: name of the group.
            now: faulty sensors by the worker's windows; None: the group is another worker's.
        """
        with self._lock:
            events = [self._events[name].document(now) for name in self._of_group.get(group, ())]
        events.sort(key=lambda each: (bool(each["going"]), each["since_ms"]), reverse=True)
        told = {(name, each["detector"]) for each in events for name in each["going"]}
        earlier: list[dict[str, Any]] = [
            {"detector": detector, "kind": None, "sensors": [name], "since_ms": None, "until_ms": None,
             "going": [name], "measured": None}
            for name, detectors in (now or {}).items()
            for detector in detectors
            if (name, detector) not in told
        ]  # fmt: skip
        return earlier + events

    def newest(self, count: int) -> list[dict[str, Any]]:
        """Up to `count` ongoing events as JSON with their groups, the newest first."""
        found: list[dict[str, Any]] = []
        with self._lock:
            for event in reversed(self._events.values()):
                if event.going and len(found) < count:
                    found.append({"group": event.group, **event.document(None)})
        return found

    def partition_of(self, group: str) -> int | None:
        """The partition of a group's events; None without any."""
        with self._lock:
            names = self._of_group.get(group)
            return None if names is None else self._events[names[-1]].partition

    def going_outside(self, partitions: Set[int]) -> dict[str, tuple[int, int]]:
        """Partition and number of faulty sensors of the groups in other partitions."""
        sensors: dict[str, tuple[int, set[str]]] = {}
        with self._lock:
            for event in self._events.values():
                if event.partition not in partitions:
                    sensors.setdefault(event.group, (event.partition, set()))[1].update(event.going)
        return {name: (partition, len(going)) for name, (partition, going) in sensors.items()}


def _event(document: dict[str, Any], partition: int, size: int) -> tuple[str, FaultEvent]:
    sensors = _names(document["sensors"])
    ts_ms = _moment_ms(document["ts"])
    measured = document.get("measured")
    if measured is not None:
        measured = {"sensor": str(measured["sensor"])} | {
            name: _finite(measured[name]) for name in ("value", "threshold", "usual")
        }
    event = FaultEvent(
        str(document["group"]), partition, str(document["detector"]), str(document["kind"]), sensors, ts_ms,
        _moment_ms(document["since"]), measured, size, None, set(sensors),
    )  # fmt: skip
    return str(document["id"]), event


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list of names, found {type(value).__name__}")
    return tuple(str(each) for each in value)


def _moment_ms(text: str) -> int:
    found = moment_ms(text)
    if not EARLIEST_MS <= found <= LATEST_MS:
        raise ValueError(f"expected a time of the years 1900 to 2200, found {text}")
    return found


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"expected a number, found {number}")
    return number


def _holds(now: Now | None, sensor: str, detector: str) -> bool:
    return now is None or detector in now.get(sensor, ())
