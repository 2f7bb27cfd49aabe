"""The groups that browsers show: their published rows, their faulty sensors, and reasons why a group is not shown.

A message holds the rows of all groups of a partition, so there are many to decode while a worker catches up. They are
then decoded less often, so that the page takes a small share of a core; a viewer sees its group move in larger leaps.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from glaim_stream.page.recent import RecentMessages
from glaim_stream.page.sources import Sources
from glaim_stream.page.watched import WatchedGroup, read_message

MOST_WATCHED = 8  # groups at a time; each takes some 200 kB for 8 sensors and 96 steps
_KEPT_S = 20.0  # time that a group stays watched after its last viewer, who may come back
_SHARE = 0.005  # share of a core that decoding may take
_UNNOTICED_S = 0.005  # CPU time that is within the share once a second
_LONGEST_S = 2.0  # longest time between two reads; the kept messages reach further back, see MOST_BYTES


@dataclass
class Watch:
    """A group that a browser shows.

    end_ms: end of the newest closed step.
    unjudged: reason why the health of the sensors is not judged: "", `off` or `habits`.
    faulty: detectors that find each sensor faulty now.
    """

    rows: WatchedGroup
    model: int
    head: dict[str, Any]
    seen_s: float
    end_ms: int = 0
    unjudged: str = ""
    faulty: dict[str, list[str]] = field(default_factory=dict)

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

    def follow(self, wanted: Set[str], now_s: float) -> None:
        """Follow the groups that browsers show, and drop those that none has shown for a while.

        Args:
            wanted: names of the groups.
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
                gone[group] = json.dumps({"group": group, "why": "this worker has no such group now"})
                self.groups.pop(group, None)
                continue
            found.seen_s = now_s
            with self._lock:
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
        partition, windows, row = found
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
        watch.unjudged = "off" if health is None else "" if health.judges else "habits"
        watch.faulty = {}
        if health is not None and health.judges:
            watch.faulty = {model.sensor_ids[at]: each for at, each in health.faulty_of(code).items()}
        return watch


class RowReader:
    """A reader that updates the watched groups."""

    def __init__(self, recent: RecentMessages, lock: AbstractContextManager[object]) -> None:
        """Read from `recent`; `lock` guards the groups."""
        self._recent, self._lock = recent, lock
        self._due_s = 0.0

    def read(self, groups: Collection[WatchedGroup], now_s: float) -> None:
        """Take the messages since the last read, unless it is too soon; a group without rows cannot wait."""
        if not groups or (now_s < self._due_s and all(group.known_to for group in groups)):
            return
        start_s = time.thread_time()
        newest = self._recent.newest
        known_to = min(group.known_to for group in groups)
        messages = [
            (message, read_message(message.value))
            for message in self._recent.since(known_to, {group.partition for group in groups})
        ]
        for group in groups:
            own = [
                (message.number, batch)
                for message, batch in messages
                if message.partition == group.partition and message.number > group.known_to
            ]
            with self._lock:
                group.add(own)
                group.known_to = max(group.known_to, newest)
        took_s = time.thread_time() - start_s
        self._due_s = now_s + (min(_LONGEST_S, took_s / _SHARE) if took_s > _UNNOTICED_S else 0.0)
