"""The delay from the reading that closes a step to the rows of that step, at a steady rate of readings."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from aiokafka import AIOKafkaProducer
from aiokafka.producer.message_accumulator import BatchBuilder
from kafka import KafkaConsumer, TopicPartition

from benchmarks.engines import Engine, Job, Output
from benchmarks.load import FIRST_STEP_MS, Load
from benchmarks.measure import EngineFailed, started
from benchmarks.topics import BATCH_BYTES, make_topic, read_topic
from glaim_stream.records import read_rows

TICK_S = 0.01
_START_S = 60.0
_REST_S = 2.0  # wait for the last outputs


@dataclass(frozen=True)
class Latency:
    """Delays over all steps and partitions, from the broker's time of the closing reading to that of the rows."""

    p50_ms: float
    p99_ms: float
    samples: int
    per_s: float  # readings per second actually sent


@dataclass(frozen=True)
class _Tick:
    """One burst: a batch per partition, and the steps whose first reading in a partition it contains."""

    builders: dict[int, BatchBuilder]
    begins: list[tuple[int, int]]  # (partition, step)


def run(engine: Engine, job: Job, *, per_s: float, seconds: float, warm_up_s: float, cores: set[int] | None) -> Latency:
    """Send `per_s` readings per second for `warm_up_s` and `seconds`; the load's shape must keep steps in order."""
    make_topic(job.servers, job.input_topic, job.load.partitions)
    make_topic(job.servers, job.output_topic, job.load.partitions)
    with started(engine, job, cores):
        begun_ms, sent_per_s = asyncio.run(_send(job, per_s, seconds + warm_up_s))
    outputs = read_topic(job.servers, job.output_topic, job.load.partitions)
    latencies = _latencies(outputs, begun_ms, min(begun_ms.values(), default=0) + warm_up_s * 1000, job.load.step_ms)
    if not len(latencies):
        raise EngineFailed(f"{engine.name}: no output within the measured time")
    p50, p99 = np.percentile(latencies, [50, 99])
    return Latency(float(p50), float(p99), len(latencies), sent_per_s)


class _Acknowledgement(Protocol):
    timestamp: int


async def _send(job: Job, per_s: float, seconds: float) -> tuple[dict[tuple[int, int], int], float]:
    """Send the load; returns the broker's time of the start of each (partition, step), and the readings per second."""
    producer = AIOKafkaProducer(bootstrap_servers=job.servers, max_batch_size=BATCH_BYTES)
    await producer.start()
    try:
        first, *ticks = _ticks(producer, job.load, max(1, int(per_s * TICK_S)), int(seconds / TICK_S))
        for partition, builder in first.builders.items():  # starts the clock of every partition
            await producer.send_batch(builder, job.input_topic, partition=partition)
        await asyncio.to_thread(_wait_for_join, job)
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


def _ticks(producer: AIOKafkaProducer, load: Load, messages: int, count: int) -> list[_Tick]:
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


def _wait_for_join(job: Job) -> None:
    """Wait until the engine has produced output in every partition."""
    consumer = KafkaConsumer(bootstrap_servers=job.servers)
    partitions = [TopicPartition(job.output_topic, number) for number in range(job.load.partitions)]
    deadline_s = time.monotonic() + _START_S
    try:
        while not all(consumer.end_offsets(partitions).values()):
            if time.monotonic() > deadline_s:
                raise EngineFailed(f"no output within {_START_S:.0f} s")
            time.sleep(0.1)
    finally:
        consumer.close()


def _latencies(
    outputs: list[Output], begun_ms: dict[tuple[int, int], int], from_ms: float, step_ms: int
) -> list[float]:
    """Delays of all steps that ended after `from_ms`; a step ends when the next one of its partition begins."""
    latencies: list[float] = []
    for output in outputs:
        rows = read_rows(output.value)
        first = rows.filter(np.asarray(rows["revision"]) == 0)["ts"].cast("int64").unique().to_pylist()
        for time_ms in first:
            step = (time_ms - FIRST_STEP_MS) // step_ms
            ended_ms = begun_ms.get((output.partition, step + 1))
            if ended_ms is not None and ended_ms >= from_ms:
                latencies.append(output.timestamp - ended_ms)
    return latencies
