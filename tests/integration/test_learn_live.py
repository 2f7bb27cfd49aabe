"""A worker fills a stream that no model has seen: with `model: learn` it learns from the stream while it runs."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.feed import hide, plant_source, produce
from glaim_stream.feed.plant import STEP_MS, STEPS_PER_DAY
from glaim_stream.imputers.closed_form import CHECK_INTERVAL_S
from glaim_stream.kafka import ensure_topics
from tests.integration.output_rows import published_by_key
from tests.integration.pumps import first_sensors
from tests.integration.worker_process import WorkerProcess, small_settings, wait_until_committed

WINDOW = 24
FIRST, SLICE = 2 * WINDOW, 4
LAST = FIRST + 4 * WINDOW
DEADLINE_S = 90
CATALOGUE = f"""
models:
  - name: stranger
    learn: true
    step_s: 60
    window: {WINDOW}
    max_gap: 12
    revise_after: 4
    idle_timeout_s: 100000
    sensors: [{{id: s0}}, {{id: s1}}, {{id: s2}}]
groups:
  - {{model: learn, pattern: "*"}}
"""


@pytest.mark.slow  # the worker looks every 5 s whether to learn, and every 10 s for a new file
def test_a_learned_model_beats_last_value_within_two_windows(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    settings = small_settings(
        kafka.bootstrap_servers, topic_prefix, tmp_path, CATALOGUE, imputer="triton", triton="localhost:1",
        model_repository=tmp_path / "models",
    )  # fmt: skip
    whole = first_sensors(plant_source(days=LAST / STEPS_PER_DAY, groups=6, seed=12))
    start_ms = int(whole.time_ms[0])
    sent = whole.where(~hide(whole, 0.15, seed=3).mask)
    file = tmp_path / "models" / "stranger" / "gaussian.npz"

    def send(first: int, last: int) -> None:
        part = sent.between(start_ms + first * STEP_MS, start_ms + last * STEP_MS)
        assert produce(settings, part).failed_messages == 0
        wait_until_committed(settings)

    ensure_topics(settings)
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        send(0, FIRST - SLICE)
        assert not file.exists()
        send(FIRST - SLICE, FIRST + SLICE)
        end_s = time.monotonic() + DEADLINE_S
        while not file.exists():
            assert time.monotonic() < end_s, (tmp_path / "worker.log").read_text()
            time.sleep(0.2)
        time.sleep(CHECK_INTERVAL_S)  # the next batch takes it up, however few steps it has
        fed = FIRST + SLICE
        while fed < FIRST + 3 * WINDOW:
            send(fed, fed + SLICE)
            fed += SLICE
        assert worker.stop() == 0
    rows = published_by_key(settings)
    early = [row for key, row in rows.items() if key[2] < start_ms + (FIRST - SLICE) * STEP_MS]
    assert {row["method"] for row in early} <= {"observed", "interpolation", "last_value", "none"}
    since_ms = start_ms + (FIRST + SLICE) * STEP_MS
    until_ms = since_ms + 2 * WINDOW * STEP_MS
    errors: dict[str, list[tuple[float, float]]] = {}
    methods: Counter[object] = Counter()
    last: dict[tuple[str, str], float] = {}
    for cell, time_ms, value in zip(whole.cell.tolist(), whole.time_ms.tolist(), whole.value.tolist(), strict=True):
        name = whole.cells[cell]
        row = rows.get((*name, time_ms))
        if row is None or row["method"] == "observed":
            last[name] = value
        elif since_ms <= time_ms < until_ms and name in last and row["method"] != "none":
            errors.setdefault(name[1], []).append((abs(float(str(row["value"])) - value), abs(last[name] - value)))
            methods[row["method"]] += 1
    assert methods["gaussian"] + methods["blend"] > methods.total() / 2
    ratios = [np.log(np.mean(found, axis=0)) for found in map(np.array, errors.values())]
    assert np.mean([ours - theirs for ours, theirs in ratios]) < np.log(0.8)  # of the error of the last value
