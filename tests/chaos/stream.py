"""A stream with everything in it that a plant sends, at a steady rate, and what must come of it."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
from kafka import KafkaProducer

from glaim_stream.catalogue import read_catalogue
from glaim_stream.imputers.ladder import Ladder
from glaim_stream.imputers.simple import Interpolation
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.records import read_rows
from glaim_stream.settings import Settings

STEP_MS = 60_000
START_MS = 1_700_000_000_000 // STEP_MS * STEP_MS
GROUPS = 24
# The wall clock closes nothing here: what it closes early is provisional, and not a function of the topic.
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
    steps: int, seed: int, *, twice: float = 0.02, late: float = 0.01, disorder_ms: int = 80_000, bad: bool = True
) -> Sent:
    """Readings of GROUPS groups with holes, disorder within the lateness, duplicates, late ones and rubbish.

    Args:
        steps: of a minute.
        seed: the same seed gives the same readings.
        twice: share of readings that come twice.
        late: share of readings that come 20 steps late.
        disorder_ms: how far readings overtake each other.
        bad: with a reading now and then that is out of its limits.
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
                if random.random() < twice:
                    out.append((arrival + 1, group.encode(), json.dumps(reading).encode()))
        if bad and step % 50 == 0:
            out.append((START_MS + step * STEP_MS, b"g1", b'{"group": "g1", "sensor": "s0", "ts": 1, "value": 999}'))
    return [(key, value, []) for _, key, value in sorted(out, key=lambda each: each[0])]


def send_steadily(settings: Settings, sent: Sent, *, rate_per_s: float) -> None:
    """Produce at a rate at which the worker is always in the middle of something."""
    # A broker that is away for long costs the producer nothing either; in order, so that the topic is what was sent.
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
    """Rows of an output message: what they say, by what they speak of."""
    return {
        (row["group"], row["sensor"], int(row["ts"].timestamp() * 1000), row["revision"]): tuple(
            row[name] for name in ("value", "observed", "method", "quality", "gap_age", "final")
        )
        for row in read_rows(value).to_pylist()
    }


async def recomputed(settings: Settings, records: dict[int, list[Any]]) -> dict[Key, Row]:
    """What an uninterrupted worker publishes for these records, computed without Kafka in one go."""
    pipeline = Pipeline(read_catalogue(settings.catalogue), {}, Ladder([Interpolation()]))
    rows: dict[Key, Row] = {}
    for part in records.values():
        if part:
            applied = pipeline.apply(pipeline.windows(), part, now_ms=time.time_ns() // 1_000_000)
            for message in pipeline.messages(await pipeline.fill(applied.closed)):
                rows |= rows_of(message.value)
    return rows
