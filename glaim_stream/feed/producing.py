"""Sends readings to the input topic at a chosen speed, and reports the acknowledgements of the broker.

Whole record batches are built here and handed to the driver. This is ten times as fast as one send per message, as a
replay of single readings at full speed needs. The order within a key is kept, and idempotence prevents a retry from
duplicating a batch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.partitioner import DefaultPartitioner
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.feed.formats import InputFormat
from glaim_stream.feed.messages import ARROW_HEADERS, DEFAULT_BATCH, Encoder, Plan, plan_messages
from glaim_stream.feed.sources import Source
from glaim_stream.kafka import ensure_topics, producer_options

_SLICE_READINGS = 2000
_TICK_S = 0.02  # seconds of messages that travel together at a chosen speed
_BATCH_BYTES = 256 * 1024

Progress = Callable[[int, int], object]  # readings handed over so far, all readings


@dataclass(frozen=True, slots=True)
class ProduceReport:
    """A report on sent readings; a dry run has no duration and no errors."""

    readings: int
    nulls: int  # readings sent as an explicit null
    messages: int
    value_bytes: int
    groups: int
    first_ms: int
    last_ms: int
    seconds: float
    failed_messages: int
    error: str = ""  # the first failure

    @property
    def readings_per_second(self) -> float:
        """Average rate of the run."""
        return self.readings / self.seconds if self.seconds else 0.0


def dry_run(
    source: Source,
    input_format: InputFormat,
    *,
    batch: int = DEFAULT_BATCH,
    null: NDArray[np.bool_] | None = None,
) -> ProduceReport:
    """Encode and count what `produce` would send, without Kafka."""
    plan = plan_messages(source, input_format, batch=batch, null=null)
    encoder = Encoder(plan)
    size = sum(len(value) for first, stop in message_slices(plan) for _, value in encoder.messages(first, stop))
    return _report(plan, size, 0.0, [])


def produce(
    settings: Settings,
    source: Source,
    *,
    input_format: InputFormat = InputFormat.SINGLE,
    batch: int = DEFAULT_BATCH,
    speed: float | None = None,
    now_ms: int | None = None,
    null: NDArray[np.bool_] | None = None,
    on_progress: Progress | None = None,
) -> ProduceReport:
    """Send readings, keyed by group, and wait until the broker has acknowledged or rejected each.

    Args:
        settings: connection to Kafka, and the input topic; absent topics are created.
        source: source with readings in order of time.
        input_format: format of the messages.
        batch: most readings in a message of the formats batch and arrow.
        speed: event seconds per second; None: as fast as possible.
        now_ms: event time at the start if a speed is set; older readings are sent at once. None: the first reading's.
        null: bool [n], readings whose value is sent as null.
        on_progress: function that is called a few times a second.

    Raises:
        SettingsError: the broker cannot be reached, or a number is out of range.
    """
    if batch < 1 or (speed is not None and speed <= 0):
        raise SettingsError(f"expected a batch of 1 or more and a speed above 0, found {batch} and {speed}")
    partitions = ensure_topics(settings)[settings.input_topic]
    plan = plan_messages(source, input_format, batch=batch, null=null)
    return asyncio.run(_send(settings, partitions, plan, speed, now_ms, on_progress))


async def _send(
    settings: Settings,
    partitions: int,
    plan: Plan,
    speed: float | None,
    now_ms: int | None,
    on_progress: Progress | None,
) -> ProduceReport:
    async with AIOKafkaProducer(
        **({"max_batch_size": min(_BATCH_BYTES, settings.max_message_bytes)} | producer_options(settings))
    ) as producer:
        sender = _Sender(producer, settings.input_topic, partitions, plan)
        start_s = time.monotonic()
        size = 0
        for first, stop in message_slices(plan) if speed is None else paced_slices(plan, speed):
            if speed is not None:
                zero_ms = int(plan.due_ms[0]) if now_ms is None else now_ms
                due_s = start_s + (int(plan.due_ms[first]) - zero_ms) / 1000 / speed
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            size += await sender.send(first, stop)
            if on_progress is not None:
                on_progress(int(plan.starts[stop]), int(plan.starts[-1]))
        failures = await sender.finish()
        return _report(plan, size, time.monotonic() - start_s, failures)


class _Sender:
    """Sender of record batches, one per partition and slice; collects the broker's acknowledgements."""

    def __init__(self, producer: Any, topic: str, partitions: int, plan: Plan) -> None:
        self._producer, self._topic = producer, topic
        self._encoder = Encoder(plan)
        numbers = list(range(partitions))
        self._partition = [DefaultPartitioner()(key, numbers, numbers) for key in self._encoder.keys]
        self._headers = ARROW_HEADERS if plan.input_format is InputFormat.ARROW else []
        self._pending: set[asyncio.Task[None]] = set()
        self._failures: list[tuple[int, str]] = []  # (messages, reason)

    async def send(self, first: int, stop: int) -> int:
        """Hand the messages `[first, stop)` to the driver, waiting while the broker is behind; return their bytes."""
        builders: dict[int, Any] = {}
        now_ms = time.time_ns() // 1_000_000
        size = 0
        keys, partition_of, headers = self._encoder.keys, self._partition, self._headers
        for group, value in self._encoder.messages(first, stop):
            partition = partition_of[group]
            builder = builders.get(partition)
            if builder is None:
                builder = builders[partition] = self._producer.create_batch()
            if builder.append(timestamp=now_ms, key=keys[group], value=value, headers=headers) is None:
                await self._hand_over(builder, partition)
                builder = builders[partition] = self._producer.create_batch()
                if builder.append(timestamp=now_ms, key=keys[group], value=value, headers=headers) is None:
                    self._failures.append((1, f"a message of {len(value)} bytes is larger than a batch"))
            size += len(value)
        for partition, builder in builders.items():
            await self._hand_over(builder, partition)
        return size

    async def finish(self) -> list[tuple[int, str]]:
        """Wait for all acknowledgements; return the failures as (messages, reason)."""
        await asyncio.gather(*self._pending)
        return self._failures

    async def _hand_over(self, builder: Any, partition: int) -> None:
        count = builder.record_count()
        if count == 0:
            return
        try:
            future = await self._producer.send_batch(builder, self._topic, partition=partition)
        except KafkaError as error:
            self._failures.append((count, repr(error)))
            return
        task = asyncio.create_task(self._acknowledged(future, count))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _acknowledged(self, future: Any, count: int) -> None:
        try:
            await future
        except KafkaError as error:
            self._failures.append((count, repr(error)))


def message_slices(plan: Plan) -> list[tuple[int, int]]:
    """Ranges of messages that hold about _SLICE_READINGS readings each."""
    if len(plan) == 0:
        return []
    marks = np.arange(0, int(plan.starts[-1]), _SLICE_READINGS)
    return _ranges(np.searchsorted(plan.starts[:-1], marks), len(plan))


def paced_slices(plan: Plan, speed: float) -> list[tuple[int, int]]:
    """Ranges of messages that fall due within one tick."""
    if len(plan) == 0:
        return []
    tick = (plan.due_ms - plan.due_ms[0]) // max(1, int(_TICK_S * 1000 * speed))
    return _ranges(np.flatnonzero(np.diff(tick, prepend=-1)), len(plan))


def _ranges(firsts: NDArray[np.int64], count: int) -> list[tuple[int, int]]:
    edges = [*np.unique(firsts).tolist(), count]
    return [(first, stop) for first, stop in pairwise(edges) if first < stop]


def _report(plan: Plan, size: int, seconds: float, failures: Sequence[tuple[int, str]]) -> ProduceReport:
    source = plan.source
    return ProduceReport(
        readings=len(source),
        nulls=int(plan.null.sum()),
        messages=len(plan),
        value_bytes=size,
        groups=len({source.cells[cell][0] for cell in np.unique(source.cell).tolist()}),
        first_ms=int(source.time_ms.min()) if len(source) else 0,
        last_ms=int(source.time_ms.max()) if len(source) else 0,
        seconds=seconds,
        failed_messages=sum(count for count, _ in failures),
        error=failures[0][1] if failures else "",
    )
