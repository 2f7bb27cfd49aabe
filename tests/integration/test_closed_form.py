"""A worker without any Triton fills holes by the closed form, better than interpolation does, as a replay does too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.audit import audit
from glaim_stream.feed.dropouts import hide
from glaim_stream.feed.plant import STEP_MS, STEPS_PER_DAY, simulate
from glaim_stream.feed.produce import produce
from glaim_stream.feed.sources import Source, plant_source
from glaim_stream.imputers.gaussian.fit import fit
from glaim_stream.kafka.topics import ensure_topics
from glaim_stream.settings import Settings
from tests.integration.output_rows import Key, published_by_key, rows_by_key
from tests.integration.worker_process import WorkerProcess, call_command, plant_settings, wait_until_committed

FITTED_DAYS, STEPS, WINDOW, GROUPS = 0.5, 150, 48, 2
CHANGES = {
    "idle_timeout_s: 5 ": "idle_timeout_s: 100000 ",  # the wall clock must close no step, it is not in the topic
    "window: 96 ": f"window: {WINDOW} ",  # a fit takes seconds less
    "max_gap: 48 ": "max_gap: 24 ",
}


def plant(steps: int) -> Source:
    """The newest steps of the simulated plant; the closed form is fitted on what comes before."""
    whole = plant_source(days=FITTED_DAYS + steps / STEPS_PER_DAY, groups=GROUPS, seed=11)
    return whole.between(int(whole.time_ms[-1]) - (steps - 1) * STEP_MS, None)


def replayed(settings: Settings, out: Path) -> dict[Key, dict[str, Any]]:
    done = call_command(settings, "replay", "--out", str(out))
    assert done.returncode == 0, done.stderr
    return rows_by_key([pq.read_table(out)])


@pytest.mark.slow  # quicker: tests/imputers/test_closed_form.py
def test_a_worker_without_triton_fills_by_the_closed_form_better_than_interpolation(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    repository, catalogue = tmp_path / "models", tmp_path / "groups.yaml"
    (repository / "plant-pump").mkdir(parents=True)
    earlier = simulate(FITTED_DAYS, groups=GROUPS, seed=11)
    values = earlier.values.astype(np.float64)
    form = fit(
        values, np.ones(values.shape, np.bool_), start_ms=int(earlier.times_ms[0]), step_ms=STEP_MS,
        sensors=earlier.sensor_ids, steps=WINDOW,
    ).form  # fmt: skip
    form.save(repository / "plant-pump")
    settings = plant_settings(kafka.bootstrap_servers, topic_prefix, imputer="gaussian", partitions=1)
    text = settings.catalogue.read_text()
    for before, now in CHANGES.items():
        assert before in text
        text = text.replace(before, now)
    catalogue.write_text(text)
    settings = settings.model_copy(update={"model_repository": repository, "catalogue": catalogue})
    whole = plant(STEPS)
    hidden = hide(whole, 0.15, seed=2).mask
    ensure_topics(settings)
    assert produce(settings, whole.where(~hidden)).failed_messages == 0
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        wait_until_committed(settings)
        assert worker.stop() == 0
    rows = published_by_key(settings)
    filled = {key: row for key, row in rows.items() if row["method"] == "gaussian"}
    assert {row["model_version"] for row in filled.values()} == {f"gaussian-{form.digest[:8]}"}
    assert {row["method"] for row in rows.values()} <= {"observed", "gaussian", "none"}
    assert all(row["lower"] <= row["value"] <= row["upper"] for row in filled.values())

    again = replayed(settings, tmp_path / "again.parquet")
    assert {key: again[key] for key in rows} == rows
    line = replayed(settings.model_copy(update={"imputer": "interpolation"}), tmp_path / "line.parquet")
    gone = whole.where(hidden)
    cells = zip(gone.cell.tolist(), gone.time_ms.tolist(), gone.value.tolist(), strict=True)
    truth = {(*gone.cells[cell], time_ms): value for cell, time_ms, value in cells}
    scored = sorted(truth.keys() & filled.keys())
    assert len(scored) > 300
    scale = {sensor: np.std([value for key, value in truth.items() if key[1] == sensor]) for _, sensor, _ in scored}
    errors = [
        np.mean([abs(each[key]["value"] - truth[key]) / scale[key[1]] for key in scored]) for each in (filled, line)
    ]
    assert errors[0] < 0.85 * errors[1]
    held = np.mean([filled[key]["lower"] <= truth[key] <= filled[key]["upper"] for key in scored])
    assert 0.75 < held < 0.99
    report = audit(settings)
    assert report.clean, report.problems
