"""`glaim-stream learn` reads the input topic beside a worker without Triton, which takes the closed form up live."""

import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kafka import KafkaAdminClient

from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.contract import write_contract
from glaim_stream.core.settings import Settings
from glaim_stream.feed import hide, plant_source, produce
from glaim_stream.feed.plant import STEP_MS, STEPS_PER_DAY
from glaim_stream.form import ClosedForm, artefact, decimals_in
from glaim_stream.kafka import ensure_topics
from tests.integration.output_rows import published_by_key
from tests.integration.pumps import first_sensors
from tests.integration.worker_process import WorkerProcess, call_command, small_settings, wait_until_committed
from tests.support import contract

LEARNED, STEPS, SLICE, WINDOW = 480, 720, 8, 24
DEADLINE_S = 90
CATALOGUE = f"""
models:
  - name: m
    step_s: 60
    window: {WINDOW}
    max_gap: 12
    revise_after: 4
    idle_timeout_s: 100000
    sensors: [{{id: s0}}, {{id: s1}}, {{id: s2}}]
groups:
  - {{model: m, pattern: "*"}}
"""


def groups_of(settings: Settings) -> set[str]:
    """Consumer groups with committed offsets of the input topic; other tests share the broker."""
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    try:
        groups = [str(group["group_id"]) for group in admin.list_groups()]
        offsets = {group: admin.list_group_offsets(group)[group] for group in groups}
    finally:
        admin.close()
    return {group for group, found in offsets.items() if any(place.topic == settings.input_topic for place in found)}


@pytest.mark.slow  # the worker looks for a new file every 10 s; tests/imputers/test_closed_form.py has no such wait
def test_a_worker_without_triton_takes_up_what_is_learned_from_its_input(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    folder = tmp_path / "models" / "m"
    folder.mkdir(parents=True)
    write_contract(contract(3, window=WINDOW, emitted_steps=5, step_s=60.0), folder)
    settings = small_settings(
        kafka.bootstrap_servers, topic_prefix, tmp_path, CATALOGUE, imputer="triton", triton="localhost:1",
        triton_deadline_s=0.2, model_repository=folder.parent,
    )  # fmt: skip
    whole = first_sensors(plant_source(days=STEPS / STEPS_PER_DAY, groups=2, seed=11))
    whole = replace(whole, value=np.round(whole.value.astype(np.float64), 2))
    start_ms = int(whole.time_ms[0])
    sent = whole.where(~hide(whole, 0.15, seed=2).mask)
    ensure_topics(settings)
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        assert produce(settings, sent.between(None, start_ms + LEARNED * STEP_MS)).failed_messages == 0
        wait_until_committed(settings)
        methods = {row["method"] for row in published_by_key(settings).values()}
        assert {"interpolation", "last_value"} & methods
        assert "gaussian" not in methods

        done = call_command(settings, "learn", "--since", "1h")
        assert done.returncode == 0, done.stderr
        assert "has now" in done.stdout, done.stdout
        assert len(groups_of(settings)) == 1  # the worker's: it leaves no consumer group
        digest = ClosedForm.load(folder).digest[:8]
        assert f"has now the closed form {digest}; better" in re.sub(r", after [0-9.]+ s", "", done.stdout)

        taken_up, end_s = LEARNED, time.monotonic() + DEADLINE_S
        while not any(row["method"] == "gaussian" for row in published_by_key(settings).values()):
            assert time.monotonic() < end_s
            assert taken_up < STEPS - 60
            part = sent.between(start_ms + taken_up * STEP_MS, start_ms + (taken_up + SLICE) * STEP_MS)
            assert produce(settings, part).failed_messages == 0
            wait_until_committed(settings)
            taken_up += SLICE
        assert produce(settings, sent.between(start_ms + taken_up * STEP_MS, None)).failed_messages == 0
        wait_until_committed(settings)
        assert worker.stop() == 0

    rows = published_by_key(settings)
    by_form = [row for row in rows.values() if row["method"] in ("gaussian", "blend")]
    assert {row["model_version"] for row in by_form} == {f"gaussian-{digest}"}
    since_ms = start_ms + (taken_up + SLICE) * STEP_MS
    filled = {key: row for key, row in rows.items() if key[2] >= since_ms and row["method"] not in ("observed", "none")}
    assert len(filled) > 50
    assert {row["method"] for row in filled.values()} <= {"gaussian", "blend", "interpolation", "last_value"}
    assert sum(row["method"] in ("gaussian", "blend") for row in filled.values()) > len(filled) / 2

    decimals = decimals_in(artefact.read(folder), 3)
    assert decimals is not None
    assert decimals.tolist() == [2, 2, 2]
    for row in by_form:
        places = int(decimals[int(str(row["sensor"])[1:])])
        assert all(row[name] == round(float(str(row[name])), places) for name in ("value", "lower", "upper")), row

    errors: dict[str, list[tuple[float, float]]] = {}
    last: dict[tuple[str, str], float] = {}
    for cell, time_ms, value in zip(whole.cell.tolist(), whole.time_ms.tolist(), whole.value.tolist(), strict=True):
        name = whole.cells[cell]
        row = filled.get((*name, time_ms))
        if row is None:
            last[name] = value
        elif name in last:
            errors.setdefault(name[1], []).append((abs(float(str(row["value"])) - value), abs(last[name] - value)))
    ratios = [np.log(np.mean(found, axis=0)) for found in map(np.array, errors.values())]
    assert np.mean([ours - theirs for ours, theirs in ratios]) < np.log(0.8)  # of the error of the last value
