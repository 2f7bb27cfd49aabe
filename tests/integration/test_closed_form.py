"""Workers without any Triton: the closed form fills alone, or with probes, and a replay has the same rows."""

import json
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.settings import Settings
from glaim_stream.feed import Source, hide, plant_source, produce
from glaim_stream.feed.plant import STEP_MS, STEPS_PER_DAY, simulate
from glaim_stream.form import ClosedForm, fit
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.audit import audit
from glaim_stream.windows import STRETCH
from tests.integration.output_rows import Key, published_by_key, rows_by_key
from tests.integration.worker_process import WorkerProcess, call_command, plant_settings, wait_until_committed

pytestmark = pytest.mark.slow  # quicker: tests/imputers/test_closed_form.py and tests/test_build.py

Rows = dict[Key, dict[str, Any]]
FITTED_DAYS, STEPS, WINDOW, GROUPS = 0.5, 150, 48, 2
CHANGES = {
    "idle_timeout_s: 5 ": "idle_timeout_s: 100000 ",  # the wall clock must close no step, it is not in the topic
    "window: 96 ": f"window: {WINDOW} ",  # a fit takes seconds less
    "max_gap: 48 ": "max_gap: 24 ",
}


@dataclass(frozen=True)
class Filled:
    """A topic of readings, the closed form for them, and what was left out.

    truth: the readings that were left out, by the keys of their rows.
    """

    settings: Settings
    form: ClosedForm
    truth: dict[Key, float]

    def into(self, name: str, **changes: object) -> Settings:
        """Settings of a worker that reads this topic and writes into one of its own."""
        prefix = self.settings.output_topic + name
        given = {"output_topic": prefix, "consumer_group": prefix, **changes}
        return Settings(**(self.settings.model_dump(exclude_defaults=True) | given))

    def held(self, rows: Rows) -> float:
        """The share of the readings that were left out which the rows' intervals hold."""
        return float(
            np.mean([rows[key]["lower"] <= self.truth[key] <= rows[key]["upper"] for key in self.scored(rows)])
        )

    def scored(self, rows: Rows) -> list[Key]:
        """The readings that were left out and for which there is a filled row."""
        keys = sorted(key for key in self.truth.keys() & rows.keys() if rows[key]["value"] is not None)
        assert len(keys) > 300
        return keys

    def error(self, rows: Rows) -> float:
        """The mean absolute error of the filled rows, in standard deviations of each sensor."""
        scale = {
            sensor: np.std([value for key, value in self.truth.items() if key[1] == sensor])
            for sensor in self.form.sensors
        }
        return float(np.mean([abs(rows[key]["value"] - self.truth[key]) / scale[key[1]] for key in self.scored(rows)]))


@pytest.fixture(scope="module")
def filled(kafka: LocalKafka | ExternalKafka, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    folder = tmp_path_factory.mktemp("closed-form")
    repository, catalogue = folder / "models", folder / "groups.yaml"
    (repository / "plant-pump").mkdir(parents=True)
    earlier = simulate(FITTED_DAYS, groups=GROUPS, seed=11)
    values = earlier.values.astype(np.float64)
    form = fit(
        values, np.ones(values.shape, np.bool_), start_ms=int(earlier.times_ms[0]), step_ms=STEP_MS,
        sensors=earlier.sensor_ids, steps=WINDOW,
    ).form  # fmt: skip
    form.save(repository / "plant-pump")
    prefix = f"closed-form-{time.time_ns()}-"
    settings = plant_settings(kafka.bootstrap_servers, prefix, imputer="gaussian", partitions=1)
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
    gone = whole.where(hidden)
    cells = zip(gone.cell.tolist(), gone.time_ms.tolist(), gone.value.tolist(), strict=True)
    return Filled(settings, form, {(*gone.cells[cell], time_ms): value for cell, time_ms, value in cells})


def plant(steps: int) -> Source:
    """The newest steps of the simulated plant; the closed form is fitted on what comes before."""
    whole = plant_source(days=FITTED_DAYS + steps / STEPS_PER_DAY, groups=GROUPS, seed=11)
    return whole.between(int(whole.time_ms[-1]) - (steps - 1) * STEP_MS, None)


def published(settings: Settings, log: Path) -> Rows:
    """The rows of a worker that runs until it has committed all of its input."""
    ensure_topics(settings)
    with WorkerProcess(settings, log) as worker:
        wait_until_committed(settings)
        assert worker.stop() == 0
    return published_by_key(settings)


def replayed(settings: Settings, out: Path) -> Rows:
    done = call_command(settings, "replay", "--out", str(out))
    assert done.returncode == 0, done.stderr
    return rows_by_key([pq.read_table(out)])


def test_a_worker_without_triton_fills_by_the_closed_form_better_than_interpolation(
    filled: Filled, tmp_path: Path
) -> None:
    settings = filled.into("alone")
    rows = published(settings, tmp_path / "worker.log")
    by_form = {row["model_version"] for row in rows.values() if row["method"] == "gaussian"}
    assert by_form == {f"gaussian-{filled.form.digest[:8]}"}
    assert {row["method"] for row in rows.values()} <= {"observed", "gaussian", "none"}
    again = replayed(settings, tmp_path / "again.parquet")
    assert {key: again[key] for key in rows} == rows
    line = replayed(settings.model_copy(update={"imputer": "interpolation"}), tmp_path / "line.parquet")
    assert filled.error(rows) < 0.85 * filled.error(line)
    assert 0.75 < filled.held(rows) < 0.99
    report = audit(settings)
    assert report.clean, report.problems


def test_with_probes_it_blends_by_recent_error_and_publishes_live_accuracy(filled: Filled, tmp_path: Path) -> None:
    settings = filled.into("probed", score_share=0.05)
    settings = settings.model_copy(update={"quality_topic": settings.output_topic + "-quality"})
    rows = published(settings, tmp_path / "worker.log")
    methods = Counter(row["method"] for row in rows.values())
    assert methods.keys() <= {"observed", "gaussian", "blend", "interpolation", "last_value", "none"}
    assert methods["blend"] > 0 < methods["gaussian"]
    again = replayed(settings, tmp_path / "again.parquet")
    assert {key: again[key] for key in rows} == rows
    alone = replayed(settings.model_copy(update={"score_share": 0.0}), tmp_path / "alone.parquet")
    assert filled.error(rows) < 1.1 * filled.error(alone)
    assert 0.8 < filled.held(rows) < 0.99
    (records,) = read_topic(settings, settings.quality_topic).values()
    stretches = [document for record in records if record.value for document in [json.loads(record.value)]]
    assert len(stretches) >= GROUPS * (STEPS // STRETCH - 1) > 0
    compared = Counter[str]()
    for sensor in (sensor for stretch in stretches for sensor in stretch["sensors"]):
        compared.update({name: method["count"] for name, method in sensor["methods"].items()})
    assert compared["gaussian"] > 100 < compared["last_value"] + compared["interpolation"]
    assert compared["model"] == 0
    report = audit(settings)
    assert report.clean, report.problems
