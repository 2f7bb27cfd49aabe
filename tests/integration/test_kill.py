"""Workers that die, leave and come in the middle of a stream: nothing is lost, and what comes twice is the same."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from kafka import KafkaProducer

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.catalogue import read_catalogue
from glaim_stream.deadletters import positions_of
from glaim_stream.imputers.ladder import Ladder
from glaim_stream.imputers.simple import Interpolation
from glaim_stream.offsets import rebuild_from_metadata
from glaim_stream.pipeline import Pipeline
from glaim_stream.records import read_rows
from glaim_stream.settings import Settings
from glaim_stream.topics import ensure_topics
from tests.integration.worker_process import WorkerProcess, wait_until_committed

STEP_MS = 60_000
START_MS = 1_700_000_000_000 // STEP_MS * STEP_MS
KILLS = 3
RATE_PER_S = 700  # 27 s in all: a restart takes some 5 s, and the stream must outlast every one
# The wall clock closes nothing in this test: what it closes early is provisional, and not a function of the topic.
CATALOGUE = """
models:
  - name: m
    step_s: 60
    lateness_s: 90
    revise_after: 4
    max_gap: 20
    idle_timeout_s: 100000
    sensors: [{id: s0, min: -50, max: 50}, {id: s1}, {id: s2}]
groups:
  - {model: m, pattern: "g*"}
"""

Key = tuple[str, str, int, int]


@pytest.fixture
def settings(kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path) -> Settings:
    catalogue = tmp_path / "groups.yaml"
    catalogue.write_text(CATALOGUE)
    return Settings(
        kafka=kafka.bootstrap_servers,
        input_topic=topic_prefix + "in",
        output_topic=topic_prefix + "out",
        consumer_group=topic_prefix + "worker",
        instance_id="worker-0",
        session_timeout_s=6,  # the least that the broker allows: a killed worker's partitions are free sooner
        catalogue=catalogue,
        imputer="interpolation",
        poll_records=500,
        commit_interval_s=0.2,
    )


def messages(steps: int, seed: int) -> list[tuple[bytes, bytes]]:
    """Readings of 24 groups with holes, disorder within the lateness, duplicates, late ones and rubbish."""
    random = np.random.default_rng(seed)
    out: list[tuple[float, bytes, bytes]] = []
    for step in range(steps):
        for group in (f"g{number}" for number in range(24)):
            for sensor in ("s0", "s1", "s2"):
                if random.random() < 0.15:
                    continue
                ts = START_MS + step * STEP_MS + int(random.integers(STEP_MS))
                value = round(float(10 * np.sin(step / 9) + random.normal()), 3)
                reading = {"group": group, "sensor": sensor, "ts": ts, "value": value}
                arrival = ts + float(random.uniform(0, 80_000)) + (random.random() < 0.01) * 20 * STEP_MS
                out.append((arrival, group.encode(), json.dumps(reading).encode()))
                if random.random() < 0.02:
                    out.append((arrival + 1, group.encode(), json.dumps(reading).encode()))
        if step % 50 == 0:
            out.append((START_MS + step * STEP_MS, b"g1", b'{"group": "g1", "sensor": "s0", "ts": 1, "value": 999}'))
    return [(key, value) for _, key, value in sorted(out, key=lambda each: each[0])]


def rows_of(value: bytes) -> dict[Key, tuple[Any, ...]]:
    table = read_rows(value).to_pylist()
    return {
        (row["group"], row["sensor"], int(row["ts"].timestamp() * 1000), row["revision"]): tuple(
            row[name] for name in ("value", "observed", "method", "quality", "gap_age", "final")
        )
        for row in table
    }


async def recomputed(settings: Settings, records: dict[int, list[Any]]) -> dict[Key, tuple[Any, ...]]:
    """What an uninterrupted worker publishes for these records, computed without Kafka in one go."""
    pipeline = Pipeline(read_catalogue(settings.catalogue), {}, Ladder([Interpolation()]))
    rows: dict[Key, tuple[Any, ...]] = {}
    for part in records.values():
        if part:
            applied = pipeline.apply(pipeline.windows(), part, now_ms=time.time_ns() // 1_000_000)
            for message in pipeline.messages(await pipeline.fill(applied.closed)):
                rows |= rows_of(message.value)
    return rows


def send_steadily(settings: Settings, sent: list[tuple[bytes, bytes]]) -> None:
    """Produce at a rate at which the worker is always in the middle of something."""
    producer = KafkaProducer(bootstrap_servers=settings.kafka, linger_ms=10)
    start_s = time.monotonic()
    for number, (key, value) in enumerate(sent):
        producer.send(settings.input_topic, key=key, value=value)
        ahead_s = number / RATE_PER_S - (time.monotonic() - start_s)
        if ahead_s > 0.02:
            time.sleep(ahead_s)
    producer.flush()
    producer.close()


@contextmanager
def streaming(settings: Settings, sent: list[tuple[bytes, bytes]], *workers: WorkerProcess) -> Iterator[None]:
    """Produces while the test does what it does; a deadline that passes shows the workers' logs."""
    stream = Thread(target=send_steadily, args=(settings, sent))
    stream.start()
    try:
        yield
        stream.join()
    except TimeoutError as error:
        logs = "\n".join(worker.log.read_text()[-4000:] for worker in workers)
        raise AssertionError(f"{error}\n{logs}") from error
    finally:
        for worker in workers:
            if worker.running:
                worker.kill()
        stream.join()


def assert_published_as_by_an_uninterrupted_worker(settings: Settings, sent: list[tuple[bytes, bytes]]) -> None:
    """Every row with the very same content, and no other; what came twice came alike."""
    records = read_topic(settings, settings.input_topic)
    expected = asyncio.run(recomputed(settings, records))
    published: dict[Key, tuple[Any, ...]] = {}
    for part in read_topic(settings, settings.output_topic).values():
        for record in part:
            for key, row in rows_of(record.value).items():
                assert published.setdefault(key, row) == row, f"{key} came twice with different content"
    assert sum(map(len, records.values())) == len(sent)
    different = [
        (key, expected.get(key), published.get(key))
        for key in expected.keys() | published.keys()
        if expected.get(key) != published.get(key)
    ]
    assert not different, f"{len(different)} rows, the first: {different[:3]}"
    assert len(expected) > len(sent)


def test_a_worker_killed_again_and_again_loses_nothing(settings: Settings, tmp_path: Path) -> None:
    ensure_topics(settings)
    sent = messages(steps=300, seed=5)
    worker = WorkerProcess(settings, tmp_path / "worker.log").start()
    with streaming(settings, sent, worker):
        for _ in range(KILLS):
            wait_until_committed(settings, more=len(sent) // 20)
            worker.kill()
            worker.start()
        metadata = wait_until_committed(settings, all_of=len(sent))
        assert worker.stop() == 0
    assert worker.log.read_text().count("windows rebuilt") >= KILLS
    assert_published_as_by_an_uninterrupted_worker(settings, sent)
    records = read_topic(settings, settings.input_topic)
    for partition, text in metadata.items():
        rebuild_from = rebuild_from_metadata(text)
        assert rebuild_from is not None
        assert 0 < rebuild_from < len(records[partition]), "the rebuild is bounded, not the whole topic"
    letters = [letter for part in read_topic(settings, settings.dlq_topic).values() for letter in part]
    causes = {dict(letter.headers)["glaim-cause"] for letter in letters}
    assert causes == {b"out-of-limits"}
    assert all(positions_of(letter.headers) == {0} for letter in letters)


def test_partitions_that_move_between_workers_lose_nothing(settings: Settings, tmp_path: Path) -> None:
    """One worker, then two, then one again: the first leaves by SIGTERM, the second's name comes back after a kill."""
    ensure_topics(settings)
    sent = messages(steps=300, seed=6)
    first = WorkerProcess(settings, tmp_path / "first.log").start()
    second = WorkerProcess(settings.model_copy(update={"instance_id": "worker-1"}), tmp_path / "second.log")
    with streaming(settings, sent, first, second):
        wait_until_committed(settings, more=len(sent) // 20)
        second.start()
        wait_until_committed(settings, more=len(sent) // 10)
        assert first.stop() == 0
        wait_until_committed(settings, more=len(sent) // 10)
        second.kill()
        second.start()
        wait_until_committed(settings, all_of=len(sent))
        assert second.stop() == 0
    assert "windows rebuilt" in second.log.read_text()
    assert_published_as_by_an_uninterrupted_worker(settings, sent)
