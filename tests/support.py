"""What the tests share: small catalogues, records, a plain model of the window rules, fakes of the edges."""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings

from glaim_stream.catalogue import Catalogue, parse_catalogue
from glaim_stream.closing import NO_WINDOW, Closed
from glaim_stream.contract import Contract, sensors_digest
from glaim_stream.deadletters import DeadLetter, InputRecord
from glaim_stream.partition import Origin
from glaim_stream.pipeline import Message
from glaim_stream.readings import Readings

# Shared machines stall, so no deadlines; in CI the same examples every time, so that a failure is the change's.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

STEP_MS = 1000


def catalogue(
    *, sensors: int | list[dict[str, Any]] = 2, groups: str = "g*", max_ahead_s: float = 300, **model: Any
) -> Catalogue:
    """One model `m` of sensors s0, s1, ... or those given, steps of a second, a window of 6; `model` overrides."""
    entry: dict[str, Any] = {
        "name": "m",
        "sensors": [{"id": f"s{index}"} for index in range(sensors)] if isinstance(sensors, int) else sensors,
        "step_s": STEP_MS / 1000,
        "window": 6,
        "revise_after": 2,
        "max_gap": 3,
        "idle_timeout_s": 5,
    }
    return parse_catalogue(
        {"models": [entry | model], "groups": [{"model": "m", "pattern": groups}], "max_ahead_s": max_ahead_s},
        source="test",
    )


def contract(sensors: int = 2, *, window: int = 6, emitted_steps: int = 3, **fields: Any) -> Contract:
    """A contract that fits `catalogue()`."""
    ids = [f"s{index}" for index in range(sensors)]
    entry: dict[str, Any] = {
        "name": "m",
        "version": 1,
        "window": window,
        "emitted_steps": emitted_steps,
        "step_s": 1.0,
        "sensors": [
            {"id": id_, "mean": 0.0, "std": 1.0, "minimum": -5.0, "maximum": 5.0, "resolution": 0.01} for id_ in ids
        ],
        "sensors_sha256": sensors_digest(ids),
        "masks": ["random"],
        "metrics": {},
        "data": {"source": "series.csv", "rows": 10, "sha256": "0" * 64},
        "torchscript_sha256": "0" * 64,
        "git_commit": "none",
        "torch_version": "none",
        "created": "2026-01-01T00:00:00Z",
    }
    return Contract.model_validate(entry | fields)


@dataclass(frozen=True)
class Event:
    """One reading of the only model, as the tests write it; NaN is a dropout that was reported."""

    time_ms: int
    value: float = 1.0
    group: int = 0
    sensor: int = 0
    model: int = 0
    quality: int = 0  # records.Quality; bad where there is no value


def columns(events: Sequence[Event], *, first_offset: int = 0, offsets: Sequence[int] | None = None) -> Readings:
    """Readings, one a record."""
    count = len(events)
    offset = np.arange(first_offset, first_offset + count) if offsets is None else np.array(offsets)
    return Readings(
        np.array([event.model for event in events], np.int32),
        np.array([event.group for event in events], np.int32),
        np.array([event.sensor for event in events], np.int32),
        np.array([event.time_ms for event in events], np.int64),
        np.array([event.value for event in events], np.float32),
        offset.astype(np.int64),
        np.zeros(count, np.int32),
        np.array([2 if math.isnan(event.value) else event.quality for event in events], np.int8),
        np.array([event.time_ms for event in events], np.int64),
    )


@dataclass(frozen=True, order=True)
class Row:
    """One published row in a form that compares: None for null, the window that fills it as bytes."""

    model: int
    ts_ms: int
    group: int
    sensor: int
    revision: int
    observed: bool
    value: float | None
    gap_age: int
    final: bool
    lag: int = 0
    window: tuple[bytes, bytes] | None = None

    @property
    def key(self) -> tuple[int, int, int, int]:
        """What a row speaks of."""
        return (self.model, self.group, self.sensor, self.ts_ms)


def rows_of(parts: Iterable[Closed]) -> list[Row]:
    """Rows of closed steps, in their order."""
    rows = []
    for part in parts:
        for n in range(len(part)):
            value, window = float(part.value[n]), int(part.window[n])
            rows.append(
                Row(
                    part.model_index,
                    int(part.ts_ms[n]),
                    int(part.group[n]),
                    int(part.sensor[n]),
                    int(part.revision[n]),
                    bool(part.observed[n]),
                    None if math.isnan(value) else value,
                    int(part.gap_age[n]),
                    bool(part.final[n]),
                    int(part.lag[n]),
                    None
                    if window == NO_WINDOW
                    else (part.window_values[window].tobytes(), part.window_observed[window].tobytes()),
                )
            )
    return rows


class ReferenceWindows:
    """The window rules of one model once more: one reading at a time, dictionaries, no rings, no arrays.

    It keeps every reading for ever and looks everything up again, so that it is slow and plain to see correct.
    """

    def __init__(self, model: Catalogue, *, sensors: int) -> None:
        self.rules = model.models[0]
        self.sensors = sensors
        self.newest_ms: int | None = None
        self.closable: int | None = None
        self.published_through: int | None = None  # by the wall clock
        self.readings: dict[tuple[int, int, int], list[tuple[int, np.float32]]] = {}  # (group, sensor, step)
        self.corrections: dict[tuple[int, int, int], int] = {}
        self.feeds: dict[int, list[int]] = {}  # step -> offsets
        self.too_late: list[Event] = []
        self.rows: list[Row] = []

    def feed(self, event: Event, offset: int) -> None:
        rules = self.rules
        self.newest_ms = event.time_ms if self.newest_ms is None else max(self.newest_ms, event.time_ms)
        closable = math.floor((self.newest_ms - rules.lateness_ms) / rules.step_ms)
        self.closable = closable if self.closable is None else self.closable
        while self.closable < closable:
            self._close(self.closable)
            self.closable += 1
        step = math.floor(event.time_ms / rules.step_ms)
        if step < self.closable - rules.window:
            self.too_late.append(event)
            return
        self.feeds.setdefault(step, []).append(offset)
        if math.isnan(event.value):
            return
        cell = (event.group, event.sensor, step)
        before = self.held(*cell)
        self.readings.setdefault(cell, []).append((event.time_ms, np.float32(event.value)))
        after = self.held(*cell)
        if self._published(step) and before != after:
            self.corrections[cell] = self.corrections.get(cell, 0) + 1
            revision = 1 + self.corrections[cell]
            self.rows.append(Row(0, step * rules.step_ms, cell[0], cell[1], revision, True, after, 0, True))

    def close_idle(self) -> None:
        assert self.newest_ms is not None
        assert self.closable is not None
        last = math.floor(self.newest_ms / self.rules.step_ms)
        for step in range(self.closable, last + 1):
            if not self._published(step):
                self._provisional(step, by_clock=True)
        self.published_through = max(last, self.published_through or last)

    def held(self, group: int, sensor: int, step: int) -> float | None:
        """What stands for a step."""
        readings = self.readings.get((group, sensor, step))
        if not readings:
            return None
        if self.rules.bucket == "mean":
            return float(np.float32(sum(float(value) for _, value in readings) / len(readings)))
        latest = max(time_ms for time_ms, _ in readings)
        return float([value for time_ms, value in readings if time_ms == latest][-1])

    def lowest_offset(self) -> int | None:
        """Of all offsets that feed a step inside the window or an open one."""
        assert self.closable is not None
        offsets = [o for step, each in self.feeds.items() if step >= self.closable - self.rules.window for o in each]
        return min(offsets, default=None)

    def _published(self, step: int) -> bool:
        assert self.closable is not None
        return step < self.closable or (self.published_through is not None and step <= self.published_through)

    def _close(self, step: int) -> None:
        if self.published_through is None or step > self.published_through:
            self._provisional(step)
        else:
            self._settled(step)
        if self.rules.revise_after:
            self._final(step)

    def _alive(self, step: int) -> list[int]:
        steps = range(step - self.rules.window + 1, step + 1)
        return sorted({group for group, _, each in self.readings if each in steps})

    def _age(self, group: int, sensor: int, step: int, most: int) -> int:
        return next((age for age in range(most) if self.held(group, sensor, step - age) is not None), most)

    def _settled(self, step: int) -> None:
        """What the clock published without a last word, and no right context will change."""
        before = self.rows
        self.rows = []
        self._provisional(step)
        settled = [replace(row, revision=1) for row in self.rows if row.final and not row.observed]
        self.rows = before + settled

    def _provisional(self, step: int, *, by_clock: bool = False) -> None:
        rules = self.rules
        for group in self._alive(step):
            for sensor in range(self.sensors):
                value = self.held(group, sensor, step)
                age = self._age(group, sensor, step, rules.window)
                hole = value is None and age <= rules.max_gap
                final = value is not None or (not by_clock and (not hole or rules.revise_after == 0))
                window = self._window(group, step) if hole else None
                ts_ms = step * rules.step_ms
                self.rows.append(Row(0, ts_ms, group, sensor, 0, value is not None, value, age, final, window=window))

    def _final(self, newest: int) -> None:
        rules = self.rules
        step = newest - rules.revise_after
        for group in self._alive(newest):
            for sensor in range(self.sensors):
                age = self._age(group, sensor, step, rules.window - rules.revise_after)
                if 0 < age <= rules.max_gap:
                    window = self._window(group, newest)
                    self.rows.append(
                        Row(
                            0,
                            step * rules.step_ms,
                            group,
                            sensor,
                            1,
                            False,
                            None,
                            age,
                            True,
                            rules.revise_after,
                            window,
                        )
                    )

    def _window(self, group: int, newest: int) -> tuple[bytes, bytes]:
        held = [
            [self.held(group, sensor, step) for step in range(newest - self.rules.window + 1, newest + 1)]
            for sensor in range(self.sensors)
        ]
        values = np.array([[0 if value is None else value for value in row] for row in held], np.float32)
        return values.tobytes(), np.array([[value is not None for value in row] for row in held]).tobytes()


@dataclass(frozen=True)
class Record:
    """A Kafka record in memory."""

    value: bytes | None
    offset: int = 0
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    timestamp: int = -1  # as Kafka says that a record has none


def json_record(offset: int = 0, *, key: bytes | None = None, **document: Any) -> Record:
    """A record of one JSON document."""
    return Record(json.dumps(document).encode(), offset, key)


@dataclass
class MemoryPublisher:
    """Keeps what is published; `gate` holds the acknowledgement back while it is clear."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    begun: int = 0
    messages: list[Message] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)

    async def publish(
        self, partition: int, messages: Sequence[Message], letters: Sequence[DeadLetter], origin: Origin
    ) -> None:
        self.begun += 1
        await self.gate.wait()
        self.messages += messages
        self.letters += letters
        self.origins.append(origin)


@dataclass
class MemoryRebuilder:
    """Gives the records of a topic in memory, from `first` on."""

    records: Sequence[InputRecord] = ()
    first: int = 0
    calls: list[int] = field(default_factory=list)  # next_offset of each call

    async def rebuild(
        self, topic: str, partition: int, next_offset: int, apply: Callable[[Sequence[InputRecord]], None]
    ) -> None:
        self.calls.append(next_offset)
        wanted = [record for record in self.records if self.first <= record.offset < next_offset]
        if wanted:
            apply(wanted)


def header(headers: Sequence[tuple[str, bytes]], name: str) -> str | None:
    """A header's text, None when it is absent."""
    return next((value.decode() for key, value in headers if key == name), None)
