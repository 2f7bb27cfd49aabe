"""A test stream with gaps, disorder, duplicates and bad readings, and the rows that a worker must publish for it."""

import json
import time
from typing import Any

import numpy as np
from kafka import KafkaProducer

from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.core.settings import Settings
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.output import read_rows
from glaim_stream.pipeline import Pipeline

STEP_MS = 60_000
START_MS = 1_700_000_000_000 // STEP_MS * STEP_MS
GROUPS = 24
# The idle timeout is so long that the wall clock closes no step: such rows would not depend on the topic alone.
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

Message = tuple[bytes, bytes | None, list[tuple[str, bytes]]]  # key, value, headers
Sent = list[Message]
Row = tuple[Any, ...]
Key = tuple[str, str, int, int]


def messages(
    steps: int, seed: int, *, duplicated: float = 0.02, late: float = 0.01, disorder_ms: int = 80_000, bad: bool = True
) -> Sent:
    """Readings of GROUPS groups with holes, disorder within the lateness, duplicates, late and bad readings.

    Args:
        steps: Number of steps, each of a minute.
        seed: The same seed gives the same readings.
        duplicated: Share of readings that are sent twice.
        late: Share of readings that arrive 20 steps late.
        disorder_ms: Largest random delay of a reading, which lets later ones overtake it.
        bad: Whether every 50th step has a reading out of its limits.
    """
    random = np.random.default_rng(seed)
    out: list[tuple[float, bytes, bytes]] = []
    for step in range(steps):
        for group in (f"g{number}" for number in range(GROUPS)):
            for sensor in ("s0", "s1", "s2"):
                if random.random() < 0.15:
                    continue
                ts = START_MS + step * STEP_MS + int(random.integers(STEP_MS))
                value = round(float(10 * np.sin(step / 9) + random.normal()), 3)
                reading = {"group": group, "sensor": sensor, "ts": ts, "value": value}
                arrival = ts + float(random.uniform(0, disorder_ms)) + (random.random() < late) * 20 * STEP_MS
                out.append((arrival, group.encode(), json.dumps(reading).encode()))
                if random.random() < duplicated:
                    out.append((arrival + 1, group.encode(), json.dumps(reading).encode()))
        if bad and step % 50 == 0:
            out.append((START_MS + step * STEP_MS, b"g1", b'{"group": "g1", "sensor": "s0", "ts": 1, "value": 999}'))
    return [(key, value, []) for _, key, value in sorted(out, key=lambda each: each[0])]


def send_steadily(settings: Settings, sent: Sent, *, rate_per_s: float) -> None:
    """Produce at a steady rate, so that a fault always hits the worker in the middle of a batch."""
    # The long delivery timeout survives broker outages; idempotence keeps the order, so the topic equals what was sent.
    producer = KafkaProducer(
        bootstrap_servers=settings.kafka, linger_ms=10, enable_idempotence=True, delivery_timeout_ms=600_000
    )
    start_s = time.monotonic()
    for number, (key, value, headers) in enumerate(sent):
        producer.send(settings.input_topic, key=key, value=value, headers=headers)
        ahead_s = number / rate_per_s - (time.monotonic() - start_s)
        if ahead_s > 0.02:
            time.sleep(ahead_s)
    producer.flush()
    producer.close()


def rows_of(value: bytes) -> dict[Key, Row]:
    """The rows of an output message by (group, sensor, time in ms, revision)."""
    return {
        (row["group"], row["sensor"], int(row["ts"].timestamp() * 1000), row["revision"]): tuple(
            row[name] for name in ("value", "observed", "method", "quality", "gap_age", "final")
        )
        for row in read_rows(value).to_pylist()
    }


async def recomputed(settings: Settings, records: dict[int, list[Any]]) -> dict[Key, Row]:
    """The rows that an uninterrupted worker publishes for these records, computed without Kafka in one batch."""
    pipeline = Pipeline(read_catalogue(settings.catalogue), {}, Ladder([Interpolation()]))
    rows: dict[Key, Row] = {}
    for part in records.values():
        if part:
            applied = pipeline.apply(pipeline.windows(), part, now_ms=time.time_ns() // 1_000_000)
            for message in pipeline.messages(await pipeline.fill(applied.closed)):
                rows |= rows_of(message.value)
    return rows
