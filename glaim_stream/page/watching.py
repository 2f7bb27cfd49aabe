"""The groups that browsers show: their published rows, their faulty sensors, and reasons why a group is not shown."""

from __future__ import annotations

import json
from collections.abc import Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from glaim_stream.page.compact import compact
from glaim_stream.page.reading import RowReader
from glaim_stream.page.sources import Sources
from glaim_stream.page.watched import WatchedGroup

MOST_WATCHED = 8  # groups at a time; each takes some 200 kB for 8 sensors and 96 steps
_KEPT_S = 20.0  # time that a group stays watched after its last viewer, who may come back


@dataclass
class Watch:
    """A group that a browser shows.

    end_ms: end of the newest closed step.
    unjudged: reason why the health of the sensors is not judged: "", `off`, `window` or `habits`.
    faulty: detectors that find each sensor faulty now.
    faults: event about the faulty sensors.
    """

    rows: WatchedGroup
    model: int
    head: dict[str, Any]
    seen_s: float
    end_ms: int = 0
    unjudged: str = ""
    faulty: dict[str, list[str]] = field(default_factory=dict)
    faults: bytes = b""

    @property
    def shown_to_ms(self) -> int:
        """End of the newest step with a row, since closed steps wait for values; `end_ms` if rows lag far behind."""
        if self.rows.newest_ms is None:
            return self.end_ms
        newest_ms = self.rows.newest_ms + int(self.head["step_ms"])
        recent = self.end_ms - newest_ms < self.head["window"] // 2 * self.head["step_ms"]
        return newest_ms if recent else self.end_ms


class Watching:
    """The watched groups. The page's thread calls `follow`; everything else is read under the lock."""

    def __init__(self, sources: Sources, lock: AbstractContextManager[object]) -> None:
        """Watch nothing yet; `lock` guards the state that viewers read."""
        self._sources, self._lock = sources, lock
        self._reader = RowReader(sources.recent, lock)
        self.groups: dict[str, Watch] = {}
        self.gone: dict[str, str] = {}  # event of each group that is not shown

    def follow(self, wanted: Set[str], partitions: Set[int], now_s: float) -> None:
        """Follow the groups that browsers show, and drop those that none has shown for a while.

        Args:
            wanted: names of the groups.
            partitions: partitions of this worker.
            now_s: time on the page's clock.

        Raises:
            LoopBusy: the event loop does not answer.
        """
        gone: dict[str, str] = {}
        for group in sorted(wanted):
            watch = self.groups.get(group)
            if watch is None and len(self.groups) >= MOST_WATCHED:
                why = f"other viewers look at {MOST_WATCHED} groups, which is as many as are shown at a time"
                gone[group] = json.dumps({"group": group, "why": why})
                continue
            found = self._sources.in_loop(self._begin(group, watch))
            if found is None:
                gone[group] = self._absent(group, partitions)
                self.groups.pop(group, None)
                continue
            found.seen_s = now_s
            faults = self._faults_of(group, found)
            with self._lock:
                found.faults = faults
                self.groups[group] = found
        with self._lock:
            self.gone = gone
            for group in [name for name, each in self.groups.items() if each.seen_s < now_s - _KEPT_S]:
                del self.groups[group]
            watched = [each.rows for each in self.groups.values()]
        self._reader.read(watched, now_s)

    async def _begin(self, group: str, watch: Watch | None) -> Watch | None:
        """Find a group in the windows, and start with their readings. Runs in the event loop."""
        found = self._sources.windows_of(group)
        if found is None:
            return None
        partition, _, windows, row = found
        rings, model = windows.rings, windows.model
        closable = rings.closable or 0
        if watch is None or watch.rows.partition != partition or watch.model != windows.model_index:
            rows = WatchedGroup(group, partition, model.sensor_ids, model.window * model.step_ms)
            head = {
                "group": group,
                "partition": partition,
                "model": model.name,
                "step_ms": model.step_ms,
                "window": model.window,
                "revise_after": model.revise_after,
                "sensors": [{"id": sensor.id, "unit": sensor.unit} for sensor in model.sensors],
            }
            watch = Watch(rows, windows.model_index, head, 0.0)
            if rings.closable is not None:
                values, observed, corrections = (
                    rings.past(array, slice(row, row + 1), closable - 1)[0]
                    for array in (rings.values, rings.observed, rings.corrections)
                )
                first_ms = (closable - model.window) * model.step_ms
                rows.hold(first_ms, model.step_ms, values, observed, corrections)
        watch.end_ms = max(closable, (windows.published_through or -1) + 1) * model.step_ms
        health, code = windows.health, rings.groups[row]
        if health is None:
            watch.unjudged = "off" if self._sources.faults is None else "window"
        else:
            watch.unjudged = "" if health.judges else "habits"
            watch.faulty = {model.sensor_ids[at]: each for at, each in health.faulty_of(code).items()}
        return watch

    def _faults_of(self, group: str, watch: Watch) -> bytes:
        """The event about the faulty sensors of a group of this worker."""
        faults = self._sources.faults
        events = [] if faults is None or watch.unjudged else faults.of(group, watch.faulty)
        return compact({"group": group, "unjudged": watch.unjudged, "events": events})

    def _absent(self, group: str, partitions: Set[int]) -> str:
        """The event for a group that this worker does not have."""
        elsewhere, faults = self._sources.elsewhere, self._sources.faults
        other = None if elsewhere is None else elsewhere.of(group)
        partition = other.partition if other is not None else None if faults is None else faults.partition_of(group)
        if partition is None or partition in partitions:
            return json.dumps({"group": group, "why": "this worker has no such group now"})
        why = f"another worker has this group, in partition {partition}: its live window is on that one's page"
        told = {"group": group, "why": why, "faults": None if faults is None else faults.of(group)}
        return f'{json.dumps(told)[:-1]}, "record": {"null" if other is None else other.detail}}}'
