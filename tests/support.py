"""Shared parts of the tests: small catalogues, records, and in-memory fakes of Kafka and models."""

import asyncio
import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, settings

from glaim_stream.core.catalogue import Catalogue, parse_catalogue
from glaim_stream.core.contract import Contract, sensors_digest
from glaim_stream.core.readings import InputRecord, Readings
from glaim_stream.decode import DeadLetter
from glaim_stream.imputers import Imputed, Windows
from glaim_stream.kafka import Commit
from glaim_stream.output import SCHEMA, Announcement, Message, Method, Origin, Output
from glaim_stream.output.records import PLAIN_SCHEMA
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows import NO_WINDOW, Applied, Closed, PartitionWindows
from glaim_stream.worker.restore import Apply, Rebuilder, Recall

# No deadlines, because shared machines stall; the same examples on every run in CI, so that only a change can fail.
# GLAIM_FUZZ=20000 checks 20,000 new examples of each property.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True)
settings.register_profile("fuzz", settings.get_profile("dev"), max_examples=int(os.environ.get("GLAIM_FUZZ") or 100))
settings.load_profile("fuzz" if os.environ.get("GLAIM_FUZZ") else "ci" if os.environ.get("CI") else "dev")

STEP_MS = 1000


def catalogue(
    *, sensors: int | list[dict[str, Any]] = 2, groups: str = "g*", max_ahead_s: float = 300, **model: Any
) -> Catalogue:
    """One model `m` with sensors s0, s1, ... or the given ones, steps of 1 s and a window of 6; `model` overrides."""
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


def torchscript(code: str = "    return VALUES\n", *, note: str = "") -> bytes:
    """A TorchScript archive as torch writes it, with one module whose forward has this body; `note` makes it unique."""
    source = f"class M(Module):\n  def forward(self, VALUES: Tensor) -> Tensor:\n{code}"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path, content in (("code/__torch__.py", source), ("version", "3"), ("byteorder", note)):
            archive.writestr(zipfile.ZipInfo(f"model/{path}"), content)
    return out.getvalue()


@dataclass(frozen=True)
class Event:
    """One reading; the value NaN is a reported dropout."""

    time_ms: int
    value: float = 1.0
    group: int = 0
    sensor: int = 0
    model: int = 0
    quality: int = 0  # vocabulary.Quality; bad if there is no value
    produced_ms: int | None = None  # time of its record; None: the event time
    requeued: bool = False


def columns(events: Sequence[Event], *, first_offset: int = 0, offsets: Sequence[int] | None = None) -> Readings:
    """Readings, one per record."""
    count = len(events)
    offset = np.arange(first_offset, first_offset + count) if offsets is None else np.array(offsets)
    return Readings(
        np.array([event.model for event in events], np.int32),
        np.array([event.group for event in events], np.int32),
        np.array([event.sensor for event in events], np.int32),
        np.array([event.time_ms for event in events], np.int64),
        np.array([event.value for event in events], np.float64),
        offset.astype(np.int64),
        np.zeros(count, np.int32),
        np.array([2 if math.isnan(event.value) else event.quality for event in events], np.int8),
        np.array([event.time_ms if event.produced_ms is None else event.produced_ms for event in events], np.int64),
        np.array([event.requeued for event in events], np.bool_),
    )


@dataclass(frozen=True, order=True)
class Row:
    """One published row in comparable form: None for null, and the window to impute from as bytes."""

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
    stamp: int = 0  # milliseconds into the step
    quality: int = 0

    @property
    def key(self) -> tuple[int, int, int, int]:
        """Model, group, sensor and step of the row."""
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
                    int(part.stamp_ms[n] - part.ts_ms[n]),
                    int(part.quality[n]),
                )
            )
    return rows


@dataclass(frozen=True)
class Record:
    """A Kafka record in memory."""

    value: bytes | None
    offset: int = 0
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    timestamp: int = -1  # Kafka's value for no timestamp


def json_record(offset: int = 0, *, key: bytes | None = None, **document: Any) -> Record:
    """A record of one JSON document."""
    return Record(json.dumps(document).encode(), offset, key)


@dataclass
class MemoryPublisher:
    """A publisher that keeps its output and acknowledges only while `gate` is set."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    begun: int = 0
    messages: list[Message] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)
    announcements: list[Announcement] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)

    async def publish(self, output: Output) -> None:
        self.begun += 1
        await self.gate.wait()
        self.messages += output.messages
        self.letters += output.letters
        self.announcements += output.announcements
        self.origins.append(output.origin)


@dataclass
class MemoryRebuilder(Rebuilder):
    """A rebuilder that reads a topic in memory from offset `first`; the first `failures` calls fail at their end."""

    records: Sequence[InputRecord] = ()
    first: int = 0
    failures: int = 0
    recalled: Commit | None = None
    calls: list[int] = field(default_factory=list)  # next_offset of each call

    async def rebuild(self, topic: str, partition: int, next_offset: int, apply: Apply, recall: Recall) -> None:
        self.calls.append(next_offset)
        if self.recalled is not None:
            recall(self.recalled)
        wanted = [record for record in self.records if self.first <= record.offset < next_offset]
        if wanted:
            await apply(wanted)
        if len(self.calls) <= self.failures:
            raise OSError("the broker is unavailable")


async def until(condition: Callable[[], bool], within_s: float = 30) -> None:
    """Let the event loop run until a condition holds."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  the condition has no event to wait for
            await asyncio.sleep(0.001)


POISON = b"poison"


class PoisonedPipeline(Pipeline):
    """A pipeline that fails on a record with the key POISON after its windows have applied the batch."""

    def slices(self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int) -> Iterator[Applied]:
        applied = list(super().slices(windows, records, now_ms=now_ms))
        if any(record.key == POISON for record in records):
            raise RuntimeError("a bug")
        return iter(applied)


def rows_message(groups: Sequence[str], **fields: Any) -> bytes:
    """A message of published rows: one row of a sensor for each group; `fields` overrides its columns."""
    row = {
        "sensor": "s", "ts": 0, "value": 1.0, "observed": True, "method": "observed", "quality": "good", "status": 0,
        "gap_age": 0, "revision": 0, "final": True, "model_version": "", **fields,
    }  # fmt: skip
    table = pa.Table.from_pylist([row | {"group": group} for group in groups], schema=PLAIN_SCHEMA).cast(SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def header(headers: Sequence[tuple[str, bytes]], name: str) -> str | None:
    """The text of a header, None if it is absent."""
    return next((value.decode() for key, value in headers if key == name), None)


class Neighbours:
    """An imputer that uses the other sensors of the group, as a model does.

    A sensor's level is its mean over the window. A missing value is the level of its sensor plus the mean deviation of
    the sensors observed at the same step from their levels; if none is observed, it is the level. The result for a
    window does not depend on the other windows of a batch.
    """

    async def impute(self, windows: Windows) -> Imputed:
        observed = windows.observed
        count = observed.sum(axis=2, keepdims=True)
        level = (windows.values * observed).sum(axis=2, keepdims=True) / np.maximum(count, 1)
        deviation = (windows.values - level) * observed
        sensors_observed = observed.sum(axis=1, keepdims=True)
        values = level + deviation.sum(axis=1, keepdims=True) / np.maximum(sensors_observed, 1)
        values = np.where(count > 0, values, np.nan)[..., -windows.steps :]
        return Imputed(values, np.full(values.shape, Method.MODEL, np.int8), ["1"] * len(windows))
