"""The newest state of a worker, made at most once a second while a browser is connected, and shared by all viewers.

A viewer has no queue: it remembers what it has sent, and sends the difference to the newest state whenever it can. So a
slow, sleeping or disconnected viewer costs nothing, and resumes where it was.

Reading the groups takes at most the share `_LOOP_SHARE` of the event loop's time: if it takes long, it is done less
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
from dataclasses import asdict, dataclass, field
from threading import Condition, Thread
from typing import Any

import numpy as np

from glaim_stream.core.metrics import input_partitions
from glaim_stream.page.sources import UNKNOWN_S, GroupStates, LoopBusy, Sources
from glaim_stream.page.watching import Watch, Watching

log = logging.getLogger(__name__)

TICK_S = 1.0
_LOOP_SHARE = 0.005
_SOONEST_S = 0.2

Event = tuple[str, bytes]  # name and JSON


@dataclass
class Viewer:
    """A stream or series of polls, with its group and the state that it was last sent."""

    board: Board = field(repr=False)
    group: str | None
    names: int = -1
    rows: int = -1
    overview: int = -1
    said: str = ""

    @property
    def position(self) -> str:
        """The state that was last sent, as text to resume from."""
        return f"{self.board.nonce}.{self.names}.{self.rows}"

    def resume(self, position: str | None) -> None:
        """Continue where an earlier stream of the same page ended; an unknown position is a fresh start."""
        nonce, *numbers = (position or "").split(".")
        if (
            nonce == self.board.nonce
            and len(numbers) == 2
            and all(each.removeprefix("-").isdecimal() for each in numbers)
        ):
            self.names, self.rows = (max(-1, int(each)) for each in numbers)

    def take(self) -> list[Event]:
        """Return the difference between the state that was last sent and the newest one."""
        return self.board.events_for(self)


class Board:
    """The newest state, and the thread that makes it."""

    def __init__(self, sources: Sources, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self.sources, self._now_s = sources, now_s
        self.nonce = secrets.token_hex(4)  # identifies this process: positions of another one mean nothing here
        self._news = Condition()
        self.watching = Watching(sources, self._news)
        self._viewers: list[Viewer] = []
        self._tick = 0
        self._states_due = 0.0
        self._names: tuple[int, list[str]] = (0, [])
        self._names_event = b""
        self._states: dict[str, Any] = {}
        self._overview = b""
        self._busy = ""

    def start(self) -> None:
        """Start the thread; it ends with the process."""
        Thread(target=self._run, name="page", daemon=True).start()

    @contextmanager
    def viewer(self, group: str | None) -> Iterator[Viewer]:
        """Add a viewer of the worker, and of a group if one is named."""
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
        """Wait for a newer state than `tick`; return the newest tick, which is the same after a timeout."""
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
            if viewer.overview != self._tick:
                events.append(("overview", self._overview))
                viewer.overview = self._tick
            if viewer.group is not None:
                events.extend(self._rows_for(viewer, self.watching.groups.get(viewer.group)))
            return events

    def _rows_for(self, viewer: Viewer, watch: Watch | None) -> list[Event]:
        why = self.watching.gone.get(viewer.group or "", "")  # an event
        if watch is None:
            if not why or viewer.said == why:
                return []
            viewer.said = why
            return [("gone", why.encode())]
        viewer.said = ""
        head = {"group": viewer.group} if viewer.rows >= 0 else {**watch.head, "full": True}
        head |= {"end_ms": watch.shown_to_ms, "unjudged": watch.unjudged, "faulty": watch.faulty}
        lines = watch.rows.since(viewer.rows)
        viewer.rows = watch.rows.known_to
        return [("group", f'{json.dumps(head, allow_nan=False)[:-1]}, "rows": [{",".join(lines)}]}}'.encode())]

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
        return not self._wanted() <= set(self.watching.groups) | set(self.watching.gone)

    def refresh(self) -> None:
        """Make the newest state; the thread calls it once a second."""
        now_s = self._now_s()
        self._busy = ""
        try:
            if now_s >= self._states_due:
                parts, took_s = self.sources.in_loop(self._timed_states())
                self._states_due = now_s + max(TICK_S / 2, took_s / _LOOP_SHARE)
                self._take_states(parts)
            with self._news:
                wanted = self._wanted()
            self.watching.follow(wanted, now_s)
        except LoopBusy as busy:
            self._busy = str(busy)
        overview = _compact(
            {
                **self._states,
                "at_ms": time.time_ns() // 1_000_000,
                "busy": self._busy,
                "input_partitions": int(next(iter(input_partitions.collect())).samples[0].value),  # 0: not counted yet
                "health": self.sources.health(),
                "outages": [json.loads(each) for each in self.sources.recent.outages],
                "rejected": [asdict(each) for each in self.sources.recent.rejected],
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
        if names != self._names[1] or not self._names_event:
            version = self._names[0] + 1
            document = {
                "version": version,
                "names": names,
            }
            with self._news:
                self._names, self._names_event = (version, names), _compact(document)
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


def _packed(parts: list[np.ndarray], kind: type[np.generic]) -> str:
    """Numbers as base64 of their little-endian bytes: a thousand groups take 1.4 kB a byte."""
    joined = np.concatenate(parts) if parts else np.empty(0, kind)
    return base64.b64encode(joined.astype(np.dtype(kind).newbyteorder("<")).tobytes()).decode()


def _compact(document: dict[str, Any]) -> bytes:
    """A document as JSON without spaces, in UTF-8; values of other types become text."""
    return json.dumps(document, separators=(",", ":"), default=str, allow_nan=False).encode()
