"""Messages of the simulated plant for its network, and the rows of a worker that is not interrupted."""

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from kafka.consumer.fetcher import ConsumerRecord

from deploy.cache import CHECKOUT
from glaim_stream.build import create_pipeline
from glaim_stream.core.settings import Settings
from glaim_stream.feed import hide, plant_source
from glaim_stream.feed.plant import STEP_MS, STEPS_PER_DAY
from glaim_stream.output import read_rows
from tests.chaos.stream import Key, Sent

LATENESS_S = 120
DISORDER_MS = 100_000  # largest random delay of a reading, within the lateness
HIDDEN = 0.15
LATE = 0.01
RECORDS = 997  # of a batch; no worker cuts the topic like this


def steady_plant() -> str:
    """The shipped catalogue, with a lateness and without the wall clock: rows must follow from the topic alone."""
    shipped = (CHECKOUT / "deploy" / "catalogues" / "plant.yaml").read_text()
    text = shipped.replace("idle_timeout_s: 5 ", "idle_timeout_s: 100000 ")
    text = text.replace("lateness_s: 0 ", f"lateness_s: {LATENESS_S} ")
    assert text.count("idle_timeout_s: 100000 ") == text.count(f"lateness_s: {LATENESS_S} ") == 1
    return text


def plant_messages(steps: int, groups: int, seed: int) -> Sent:
    """Readings of the simulated plant with holes, disorder within the lateness, and some that come 20 steps late."""
    random = np.random.default_rng(seed)
    source = plant_source(steps / STEPS_PER_DAY, groups=groups, seed=seed)
    source = source.where(~hide(source, HIDDEN, seed=seed).mask)
    out: list[tuple[float, bytes, bytes]] = []
    for cell, ts, value in zip(source.cell.tolist(), source.time_ms.tolist(), source.value.tolist(), strict=True):
        group, sensor = source.cells[cell]
        arrival = ts + random.uniform(0, DISORDER_MS) + (random.random() < LATE) * 20 * STEP_MS
        reading = {"group": group, "sensor": sensor, "ts": ts, "value": value}
        out.append((arrival, group.encode(), json.dumps(reading).encode()))
    return [(key, value, []) for _, key, value in sorted(out, key=lambda each: each[0])]


def every_column(values: Iterable[bytes]) -> dict[Key, dict[str, Any]]:
    """The rows of output messages with all their columns; a row that comes twice must be the same to the bit."""
    rows: dict[Key, dict[str, Any]] = {}
    for value in values:
        for row in read_rows(value).to_pylist():
            key = (row["group"], row["sensor"], int(row["ts"].timestamp() * 1000), row["revision"])
            assert rows.setdefault(key, row) == row, f"{key} was published twice: {rows[key]}, {row}"
    return rows


async def uninterrupted(settings: Settings, records: Sequence[ConsumerRecord]) -> dict[Key, dict[str, Any]]:
    """Compute the rows, with all columns, that a worker with these settings publishes for one partition's records."""
    rows: dict[Key, dict[str, Any]] = {}
    pipeline, ladder = create_pipeline(settings)
    windows, scores = pipeline.windows(), pipeline.scores()
    for start in range(0, len(records), RECORDS):
        batch = records[start : start + RECORDS]
        applied = pipeline.apply(windows, batch, now_ms=time.time_ns() // 1_000_000)
        upgrades = pipeline.upgrades(windows, scores)
        answers = await pipeline.query(applied.closed, applied.probes, upgrades)
        messages = pipeline.messages(pipeline.settle(scores, answers))
        rows |= every_column(message.value for message in messages)
    await ladder.close()
    return rows
