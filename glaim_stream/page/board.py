"""The newest state of a worker, made at most once a second while a browser is connected, and shared by all viewers.

A viewer has no queue: it remembers what it has sent, and sends the difference to the newest state whenever it can. One
that is slow, asleep or cut off therefore costs nothing, and resumes where it was.

The event loop is asked for as much as `_LOOP_SHARE` of its time: where reading the groups takes long, it is done less
often.
"""

from __future__ import annotations

import base64
import json
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any

import numpy as np

from glaim_stream.page.figures import Accuracy, Throughput, known_versions, refused_versions
from glaim_stream.page.overview import UNKNOWN_S, GroupStates
from glaim_stream.page.sources import LoopBusy, Sources
from glaim_stream.page.versions import versions_of
from glaim_stream.page.watched import WatchedGroup, read_message

log = logging.getLogger(__name__)

TICK_S = 1.0
MODEL_EVERY_S = 5.0
MOST_NAMED = 6  # faulty sensors beside the groups
MOST_WATCHED = 8  # groups at a time; each takes some 200 kB for 8 sensors and 96 steps
_KEPT_S = 20.0  # a group stays watched for so long after its last viewer, who may come back
_LOOP_SHARE = 0.005
_SOONEST_S = 0.2

Event = tuple[str, bytes]  # name and JSON


@dataclass
class _Watch:
    """A group that a browser shows.

    end_ms: end of the newest closed step.
    unjudged: why the health of its sensors is not judged: "", `off`, `window` or `habits`.
    faulty: the detectors by which its sensors are faulty now.
    faults: the event about its faulty sensors.
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
        """End of the newest step with a row, while rows follow the closed steps: these wait for their values first."""
        if self.rows.newest_ms is None:
            return self.end_ms
        newest_ms = self.rows.newest_ms + int(self.head["step_ms"])
        recent = self.end_ms - newest_ms < self.head["window"] // 2 * self.head["step_ms"]
        return newest_ms if recent else self.end_ms


@dataclass
class Viewer:
    """One stream or one series of polls: which group it shows, and what it has been sent."""

    board: Board = field(repr=False)
    group: str | None
    names: int = -1
    rows: int = -1
    elsewhere: int = -1
    overview: int = -1
    model: tuple[int, int, int] | None = None
    said: str = ""
    faults: bytes = b""

    @property
    def position(self) -> str:
        """What it has been sent, for the time when it comes back."""
        return f"{self.board.nonce}.{self.names}.{self.rows}.{self.elsewhere}"

    def resume(self, position: str | None) -> None:
        """Continue where an earlier stream of the same page ended; anything unknown is a fresh start."""
        nonce, *numbers = (position or "").split(".")
        if (
            nonce == self.board.nonce
            and len(numbers) == 3
            and all(each.removeprefix("-").isdecimal() for each in numbers)
        ):
            self.names, self.rows, self.elsewhere = (max(-1, int(each)) for each in numbers)

    def take(self) -> list[Event]:
        """The difference between what it has been sent and the newest state."""
        return self.board.events_for(self)


class Board:
    """The newest state, and the thread that makes it."""

    def __init__(self, sources: Sources, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self.sources, self._now_s = sources, now_s
        self.nonce = secrets.token_hex(4)  # of this process: positions of another one mean nothing here
        self._news = Condition()
        self._viewers: list[Viewer] = []
        self._throughput, self._accuracy = Throughput(), Accuracy()
        self._tick = 0
        self._states_due = 0.0
        self._names: tuple[int, list[str]] = (0, [])
        self._names_event = b""
        self._elsewhere: tuple[int, tuple[int, ...], bytes] = (0, (), b"")  # version, made of, event
        self._elsewhere_due = 0.0
        self._states: dict[str, Any] = {}
        self._overview = b""
        self._first: tuple[int, int] | None = None  # partition and model that are shown where no group is chosen
        self._models: dict[tuple[int, int], tuple[float, int, bytes]] = {}
        self._watched: dict[str, _Watch] = {}
        self._gone: dict[str, str] = {}  # why a group is not shown
        self._busy = ""

    def start(self) -> None:
        """Start the thread; it ends with the process."""
        Thread(target=self._run, name="page", daemon=True).start()

    @contextmanager
    def viewer(self, group: str | None) -> Iterator[Viewer]:
        """Look at the worker, and at a group where one is named."""
        viewer = Viewer(self, group)
        with self._news:
            self._viewers.append(viewer)
            self._news.notify_all()
        try:
            yield viewer
        finally:
            with self._news:
                self._viewers.remove(viewer)

    def wait(self, tick: int, timeout_s: float) -> int:
        """Wait for a newer state than that of `tick`; return the newest one's, which is the same after a timeout."""
        with self._news:
            self._news.wait_for(lambda: self._tick > tick, timeout_s)
            return self._tick

    def events_for(self, viewer: Viewer) -> list[Event]:
        """See Viewer.take."""
        with self._news:
            events: list[Event] = []
            if not self._overview:
                return events
            version = self._names[0]
            if viewer.names != version and self._names_event:
                events.append(("names", self._names_event))
                viewer.names = version
            if viewer.elsewhere != self._elsewhere[0] and self._elsewhere[2]:
                events.append(("elsewhere", self._elsewhere[2]))
                viewer.elsewhere = self._elsewhere[0]
            if viewer.overview != self._tick:
                events.append(("overview", self._overview))
                viewer.overview = self._tick
            watch = self._watched.get(viewer.group or "")
            shown = self._first if watch is None else (watch.rows.partition, watch.model)
            made = None if shown is None else self._models.get(shown)
            if shown is not None and made is not None and viewer.model != (*shown, made[1]):
                events.append(("model", made[2]))
                viewer.model = (*shown, made[1])
            if viewer.group is not None:
                events += self._rows_for(viewer, watch)
            return events

    def watched(self, group: str) -> WatchedGroup | None:
        """The rows of a group that a browser shows."""
        with self._news:
            watch = self._watched.get(group)
            return None if watch is None else watch.rows

    def _rows_for(self, viewer: Viewer, watch: _Watch | None) -> list[Event]:
        why = self._gone.get(viewer.group or "", "")  # an event
        if watch is None:
            if not why or viewer.said == why:
                return []
            viewer.said = why
            return [("gone", why.encode())]
        viewer.said = ""
        head = {"group": viewer.group} if viewer.rows >= 0 else {**watch.head, "full": True}
        lines = watch.rows.since(viewer.rows)
        viewer.rows = watch.rows.known_to
        text = json.dumps({**head, "end_ms": watch.shown_to_ms})
        events = [("group", f'{text[:-1]}, "rows": [{",".join(lines)}]}}'.encode())]
        if viewer.faults != watch.faults:
            viewer.faults = watch.faults
            events.append(("faults", watch.faults))
        return events

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: bool(self._viewers))
            start_s = self._now_s()
            try:
                self.refresh()
            except Exception:
                log.exception("the page could not read the worker's state")
            with self._news:
                self._tick += 1
                self._news.notify_all()
                rest_s = TICK_S - (self._now_s() - start_s)
                self._news.wait_for(self._has_newcomer, max(_SOONEST_S, rest_s))
            time.sleep(max(0.0, _SOONEST_S - (self._now_s() - start_s)))

    def _wanted(self) -> set[str]:
        return {viewer.group for viewer in self._viewers if viewer.group is not None}

    def _has_newcomer(self) -> bool:
        """Whether a viewer wants a group that is not shown yet."""
        return not self._wanted() <= set(self._watched) | set(self._gone)

    def refresh(self) -> None:
        """Make the newest state; called by the thread, once a second."""
        now_s = self._now_s()
        self._busy = ""
        try:
            if now_s >= self._states_due:
                parts, took_s = self.sources.in_loop(self._timed_states())
                self._states_due = now_s + max(TICK_S / 2, took_s / _LOOP_SHARE)
                self._take_states(parts)
            self._take_faults()
            self._look_elsewhere(now_s)
            self._watch(now_s)
            self._make_models(now_s)
        except LoopBusy as busy:
            self._busy = str(busy)
        overview = _json(
            {
                **self._states,
                "at_ms": time.time_ns() // 1_000_000,
                "busy": self._busy,
                "figures": self._throughput.read(),
                "health": self.sources.health(),
                "outages": [json.loads(each) for each in self.sources.recent.outages],
                "faults": [] if self.sources.faults is None else self.sources.faults.newest(MOST_NAMED),
            }
        )
        with self._news:
            self._overview = overview

    async def _timed_states(self) -> tuple[list[GroupStates], float]:
        start_s = time.perf_counter()
        parts = await self.sources.states()
        return parts, time.perf_counter() - start_s

    def _take_states(self, parts: list[GroupStates]) -> None:
        names = [name for part in parts for name in part.names]
        partitions = sorted({part.partition for part in parts})
        catalogue = self.sources.pipeline.catalogue
        if names != self._names[1] or not self._names_event:
            version = self._names[0] + 1
            document = {
                "version": version,
                "names": names,
                "models": [model.name for model in catalogue.models],
                "model": [part.model for part in parts for _ in part.names],
                "partition": [part.partition for part in parts for _ in part.names],
            }
            with self._news:
                self._names, self._names_event = (version, names), _json(document)
        self._first = (parts[0].partition, parts[0].model) if parts else None
        self._states = {
            "version": self._names[0],
            "count": len(names),
            "partitions": partitions,
            "state": _packed([part.state for part in parts], np.uint8),
            "missing": _packed([part.missing for part in parts], np.uint8),
            "behind_s": _packed([part.behind_s for part in parts], np.uint32),
            "unknown_s": UNKNOWN_S,
            "faulty": _packed([part.faulty for part in parts], np.uint8),
        }

    def _take_faults(self) -> None:
        """Take the events of sensor health that this worker has published since the last time."""
        if self.sources.faults is not None:
            for partition, value in self.sources.recent.take_health():
                self.sources.faults.take(partition, None, value)

    def _watch(self, now_s: float) -> None:
        """Follow the groups that browsers show, and forget those that none has shown for a while."""
        with self._news:
            wanted = self._wanted()
        gone: dict[str, str] = {}
        for group in sorted(wanted):
            watch = self._watched.get(group)
            if watch is None and len(self._watched) >= MOST_WATCHED:
                why = f"other viewers look at {MOST_WATCHED} groups, which is as many as are shown at a time"
                gone[group] = json.dumps({"group": group, "why": why})
                continue
            found = self.sources.in_loop(self._begin(group, watch))
            if found is None:
                gone[group] = self._absent(group)
                self._watched.pop(group, None)
                continue
            found.seen_s = now_s
            faults = self._faults_of(group, found)
            with self._news:
                found.faults = faults
                self._watched[group] = found
        with self._news:
            self._gone = gone
            for group in [name for name, each in self._watched.items() if each.seen_s < now_s - _KEPT_S]:
                del self._watched[group]
        self._read_rows()

    def _faults_of(self, group: str, watch: _Watch) -> bytes:
        """The event about the faulty sensors of a group of this worker."""
        faults = self.sources.faults
        events = [] if faults is None or watch.unjudged else faults.of(group, watch.faulty)
        return _json({"group": group, "unjudged": watch.unjudged, "events": events})

    def _absent(self, group: str) -> str:
        """The event for a group that this worker does not have."""
        own = self._states.get("partitions", ())
        other = None if self.sources.elsewhere is None else self.sources.elsewhere.of(group)
        faults = self.sources.faults
        partition = other.partition if other is not None else None if faults is None else faults.partition_of(group)
        if partition is None or partition in own:
            return json.dumps({"group": group, "why": "this worker has no such group now"})
        why = f"another worker has this group, in partition {partition}: its live window is on that one's page"
        told = {"group": group, "why": why, "faults": None if faults is None else faults.of(group)}
        return f'{json.dumps(told)[:-1]}, "record": {"null" if other is None else other.detail}}}'

    def _look_elsewhere(self, now_s: float) -> None:
        """Make the list of other workers' groups, every few seconds at most."""
        elsewhere, faults = self.sources.elsewhere, self.sources.faults
        known = [each.version for each in (elsewhere, faults) if each is not None]
        made_of = (*known, self._names[0])
        if not known or made_of == self._elsewhere[1] or now_s < self._elsewhere_due:
            return
        self._elsewhere_due = now_s + MODEL_EVERY_S
        own, partitions = set(self._names[1]), set(self._states.get("partitions", ()))
        faulty = {} if faults is None else faults.going_outside(partitions)
        groups: dict[str, list[Any]] = {
            name: [name, partition, None, count] for name, (partition, count) in faulty.items()
        }
        for name, other in [] if elsewhere is None else elsewhere.outside(partitions):
            coverage = None if other.coverage is None else round(other.coverage, 3)
            groups[name] = [name, other.partition, coverage, faulty.get(name, (0, 0))[1]]
        found = [groups[name] for name in sorted(groups.keys() - own)]
        version = self._elsewhere[0] + 1
        with self._news:
            self._elsewhere = (version, made_of, _json({"version": version, "groups": found}))

    async def _begin(self, group: str, watch: _Watch | None) -> _Watch | None:
        """Find a group in the windows, and begin with the readings that they hold. Runs in the event loop."""
        found = self.sources.windows_of(group)
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
            watch = _Watch(rows, windows.model_index, head, 0.0)
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
            watch.unjudged = "off" if self.sources.faults is None else "window"
        else:
            watch.unjudged = "" if health.judges else "habits"
            watch.faulty = {model.sensor_ids[at]: each for at, each in health.faulty_of(code).items()}
        return watch

    def _read_rows(self) -> None:
        """Decode the messages since the last time, for all watched groups at once."""
        with self._news:
            watches = list(self._watched.values())
        if not watches:
            return
        known_to = min(watch.rows.known_to for watch in watches)
        newest = self.sources.recent.newest
        for message in self.sources.recent.since(known_to, {watch.rows.partition for watch in watches}):
            batch = read_message(message.value)
            with self._news:
                for watch in watches:
                    if watch.rows.partition == message.partition and message.number > watch.rows.known_to:
                        watch.rows.add(batch, message.number)
        with self._news:
            for watch in watches:
                watch.rows.known_to = max(watch.rows.known_to, newest)

    def _make_models(self, now_s: float) -> None:
        """Accuracy, weights and versions of the models that viewers see."""
        wanted = {(watch.rows.partition, watch.model) for watch in self._watched.values()}
        wanted |= set() if self._first is None else {self._first}
        models = self.sources.pipeline.catalogue.models
        self._accuracy.keep({models[index].name for _, index in wanted})
        made = {key: self._models[key] for key in wanted if key in self._models}
        for partition, index in wanted:
            before = made.get((partition, index))
            if before is not None and now_s - before[0] < MODEL_EVERY_S:
                continue
            model = models[index]
            document = {
                "model": model.name,
                "partition": partition,
                "sensors": [{"id": sensor.id, "unit": sensor.unit} for sensor in model.sensors],
                "weights": self.sources.in_loop(self.sources.weights(partition, index)),
                **self._accuracy.read(model.name),
                "versions": versions_of(
                    model,
                    known_versions(model.name),
                    refused_versions(model.name),
                    self.sources.pipeline.contracts,
                    self.sources.form_of(model.name),
                ),
            }
            made[partition, index] = (now_s, self._tick + 1, _json(document))
        with self._news:
            self._models = made


def _packed(parts: list[np.ndarray], kind: type[np.generic]) -> str:
    """Numbers as base64 of their little-endian bytes: a thousand groups take 1.4 kB a byte."""
    joined = np.concatenate(parts) if parts else np.empty(0, kind)
    return base64.b64encode(joined.astype(np.dtype(kind).newbyteorder("<")).tobytes()).decode()


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), default=str).encode()
