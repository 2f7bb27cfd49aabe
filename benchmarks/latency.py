"""The delay from the reading that closes a step until a reader has the rows of that step, at a steady rate."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from aiokafka import AIOKafkaProducer
from aiokafka.producer.message_accumulator import BatchBuilder
from kafka import KafkaConsumer, TopicPartition

from benchmarks.engines import Engine, EngineOutput, Job
from benchmarks.load import FIRST_STEP_MS, TopicLoad
from benchmarks.measure import EngineFailed, started
from benchmarks.topics import BATCH_BYTES, make_topic

TICK_S = 0.01
_START_S = 60.0
_REST_S = 2.0  # wait for the last outputs


@dataclass(frozen=True)
class Latency:
    """Delays over all steps and partitions of one round, from the broker's time of the closing reading."""

    p50_ms: float
    p99_ms: float
    samples: int
    per_s: float  # readings per second actually sent
    start_p50_ms: float | None  # of the steps that ended within the warm-up, if any did
    start_p99_ms: float | None


@dataclass(frozen=True)
class _Arrival:
    """A message, and the time at which the reader had it."""

    time_ms: float
    output: EngineOutput


class _Reader:
    """Reads the output while it is written, and only what is committed, as a user of the rows does."""

    def __init__(self, job: Job) -> None:
        self.arrivals: list[_Arrival] = []
        self._job = job
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def has_every_partition(self) -> bool:
        """Whether a message of every partition arrived."""
        return len({arrival.output.partition for arrival in self.arrivals}) == self._job.load.partitions

    def _read(self) -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=self._job.servers, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        try:
            consumer.assign(
                [TopicPartition(self._job.output_topic, number) for number in range(self._job.load.partitions)]
            )
            while not self._stop.is_set():
                polled = consumer.poll(timeout_ms=200)
                now_ms = time.time() * 1000
                for records in polled.values():
                    self.arrivals += [_Arrival(now_ms, record) for record in records]
        finally:
            consumer.close()


@dataclass(frozen=True)
class _Tick:
    """One burst: a batch per partition, and the steps whose first reading in a partition it contains."""

    builders: dict[int, BatchBuilder]
    begins: list[tuple[int, int]]  # (partition, step)


def run(engine: Engine, job: Job, *, per_s: float, seconds: float, warm_up_s: float, cores: set[int] | None) -> Latency:
    """Send `per_s` readings per second for `warm_up_s` and `seconds`; the load's shape must keep steps in order."""
    make_topic(job.servers, job.input_topic, job.load.partitions)
    make_topic(job.servers, job.output_topic, job.load.partitions)
    with started(engine, job, cores), _Reader(job) as reader:
        begun_ms, sent_per_s = asyncio.run(_send(job, reader, per_s, seconds + warm_up_s))
    start, latencies = _latencies(engine, job, reader.arrivals, begun_ms, warm_up_s)
    if not len(latencies):
        raise EngineFailed(f"{engine.name}: no output within the measured time")
    p50, p99 = np.percentile(latencies, [50, 99])
    start_p50, start_p99 = map(float, np.percentile(start, [50, 99])) if start else (None, None)
    return Latency(float(p50), float(p99), len(latencies), sent_per_s, start_p50, start_p99)


class _Acknowledgement(Protocol):
    timestamp: int


async def _send(job: Job, reader: _Reader, per_s: float, seconds: float) -> tuple[dict[tuple[int, int], int], float]:
    """Send the load; returns the broker's time of the start of each (partition, step), and the readings per second."""
    producer = AIOKafkaProducer(bootstrap_servers=job.servers, max_batch_size=BATCH_BYTES)
    await producer.start()
    try:
        first, *ticks = _ticks(producer, job.load, max(1, int(per_s * TICK_S)), int(seconds / TICK_S))
        for partition, builder in first.builders.items():  # starts the clock of every partition
            await producer.send_batch(builder, job.input_topic, partition=partition)
        await _first_output(reader)
        acknowledged: list[tuple[list[tuple[int, int]], int, asyncio.Future[_Acknowledgement]]] = []
        start_s = time.perf_counter()
        for number, tick in enumerate(ticks):
            await asyncio.sleep(max(0.0, start_s + number * TICK_S - time.perf_counter()))
            for partition, builder in tick.builders.items():
                future = await producer.send_batch(builder, job.input_topic, partition=partition)
                acknowledged.append((tick.begins, partition, future))
        took_s = time.perf_counter() - start_s
        begun_ms: dict[tuple[int, int], int] = {}
        for begins, partition, future in acknowledged:
            timestamp = (await future).timestamp
            begun_ms.update(((of, step), timestamp) for of, step in begins if of == partition)
        await asyncio.sleep(_REST_S)
    finally:
        await producer.stop()
    readings = sum(builder.record_count() for tick in ticks for builder in tick.builders.values())
    return begun_ms, readings / took_s


def _ticks(producer: AIOKafkaProducer, load: TopicLoad, messages: int, count: int) -> list[_Tick]:
    """A first tick of two whole steps, then `count` ticks of `messages` messages, built before the clock starts."""
    ticks = [_Tick(defaultdict(producer.create_batch), [])]
    seen: set[tuple[int, int]] = set()
    left = 0
    for partition, key, value, headers, _, step in load.messages():
        if left == 0 and step >= 2:
            if len(ticks) > count:
                break
            ticks.append(_Tick(defaultdict(producer.create_batch), []))
            left = messages
        left -= left > 0
        tick = ticks[-1]
        tick.builders[partition].append(key=key, value=value, timestamp=None, headers=headers)
        if (partition, step) not in seen:
            seen.add((partition, step))
            tick.begins.append((partition, step))
    return ticks


async def _first_output(reader: _Reader) -> None:
    """Wait until the engine has produced output in every partition."""
    deadline_s = time.monotonic() + _START_S
    while not reader.has_every_partition():
        if time.monotonic() > deadline_s:
            raise EngineFailed(f"no output within {_START_S:.0f} s")
        await asyncio.sleep(0.1)


def _latencies(
    engine: Engine,
    job: Job,
    arrivals: Sequence[_Arrival],
    begun_ms: dict[tuple[int, int], int],
    warm_up_s: float,
) -> tuple[list[float], list[float]]:
    """Delays of the steps that ended within the warm-up, and after it; the next step of its partition ends one.

    An engine that writes a message for each group is measured to the first of them.
    """
    from_ms = min(begun_ms.values(), default=0) + warm_up_s * 1000
    found: dict[tuple[int, int], tuple[bool, float]] = {}
    for arrival in arrivals:
        for partition, time_ms in engine.closed_in(job, arrival.output):
            step = (time_ms - FIRST_STEP_MS) // job.load.step_ms
            ended_ms = begun_ms.get((partition, step + 1))
            if ended_ms is not None:
                found.setdefault((partition, step), (ended_ms >= from_ms, arrival.time_ms - ended_ms))
    return [delay for warm, delay in found.values() if not warm], [delay for warm, delay in found.values() if warm]
