"""The commands of the chart's CronJobs, as helm renders them: dump, training, promotion and rollback.

The model is promoted and rolled back under load, and no row is lost either way.
"""

import os
import re
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from deploy.cache import CHECKOUT
from deploy.demo.topic import read_topic
from deploy.helm import HelmUnavailable, find_helm
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.triton import LocalTriton
from deploy.triton_install import unsupported_reason
from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.core.contract import read_contract
from glaim_stream.core.settings import Settings
from glaim_stream.feed import Source, hide, plant_source, produce
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.audit import audit
from glaim_stream.output import SensorTable, read_rows
from tests.integration.worker_process import WorkerProcess, wait_until_committed

STEP_MS = 60_000
DUMPED, STEPS = 700, 1400  # the last 15 % of the dump are just longer than one window
MODEL = "plant-pump"
ROLLBACK_JOB = "plant-glaim-stream-rollback"
CATALOGUE = CHECKOUT / "deploy" / "catalogues" / "plant.yaml"
# The shipped recipe reduced to seconds, without the closed forms of the folds, which take a minute; such a model does
# not beat the baselines, so its export is forced.
SMALL = ["--force-export", "--epochs=1", "--d-model=8", *(
    f"--set={setting}" for setting in (
        "model.ffn=8", "model.heads=2", "model.d_psi=8", "model.d_g=2", "train.iterations=5",
        "train.validation_windows=20", "train.warmup=0", "model.cascade=false", "model.own_form=false",
        "model.residual=true",
    )
)]  # fmt: skip


class CronJob:
    """The steps of the chart's retraining, with the containers' folders mapped into one local folder."""

    def __init__(self, settings: Settings, place: Path) -> None:
        try:
            helm = find_helm()
        except HelmUnavailable as reason:
            pytest.skip(str(reason))
        values = place / "values.yaml"
        config = (CHECKOUT / "training" / "configs" / "plant-pump-again.toml").read_text()
        training = {"enabled": True, "model": MODEL, "config": config, "device": "cpu", "extraArgs": SMALL}
        training["data"] = {"since": "1d"}
        kafka = {"bootstrapServers": settings.kafka, "inputTopic": settings.input_topic}
        image = {"registry": "registry.example/team"}
        models = {"source": "claim"}
        values.write_text(yaml.safe_dump({"image": image, "kafka": kafka, "models": models, "training": training}))
        command = [helm, "template", "plant", CHECKOUT / "helm" / "glaim-stream", "--values", values]
        run = subprocess.run([*command, "--kube-version", "1.34.0"], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        objects = [each for each in yaml.load_all(run.stdout, yaml.CSafeLoader) if each]
        jobs = {each["metadata"]["name"]: each for each in objects if each["kind"] == "CronJob"}
        name = "plant-glaim-stream-training"
        pods = [jobs[each]["spec"]["jobTemplate"]["spec"]["template"]["spec"] for each in (name, ROLLBACK_JOB)]
        self.steps = {
            step["name"]: step for pod in pods for step in [*pod.get("initContainers", []), *pod["containers"]]
        }
        texts = next(each for each in objects if each["kind"] == "ConfigMap" and each["metadata"]["name"] == name)[
            "data"
        ]
        (place / "config.toml").write_text(texts["config.toml"])
        self._local_paths = {
            "$(RUN)": "plant-29384920",
            "/etc/glaim/training/config.toml": str(place / "config.toml"),
            "/opt/glaim/groups.yaml": str(CATALOGUE),
            "/opt/glaim/model_repo": str(CHECKOUT / "model_repo"),
            "/models/": f"{place}/models/",
            "/runs": str(place / "work"),
        }

    def run(self, name: str) -> str:
        """Run one step to its end and return its output."""
        step = self.steps[name]
        program, *arguments = [self._mapped(word) for word in step["command"]]
        if program == "glaim-stream":
            arguments = ["-m", "glaim_stream", *arguments]
        variables = {each["name"]: self._mapped(each["value"]) for each in step["env"] if "value" in each}
        run = subprocess.run(
            [sys.executable, *arguments], env=os.environ | variables, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip
        assert run.returncode == 0, f"{name}: {run.stdout}\n{run.stderr}"
        return run.stdout

    def _mapped(self, word: str) -> str:
        paths = "|".join(map(re.escape, self._local_paths))  # one pass, because a replacement may contain another path
        return re.sub(paths, lambda found: self._local_paths[found[0]], word)


@pytest.mark.slow
@pytest.mark.timeout(400)  # takes half a minute on an idle machine
def test_a_retrained_model_is_promoted_and_rolled_back_under_load(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    repository = tmp_path / "models" / "repository"
    settings = Settings(
        kafka=kafka.bootstrap_servers,
        catalogue=CATALOGUE,
        model_repository=repository,
        input_topic=topic_prefix + "in",
        output_topic=topic_prefix + "out",
        consumer_group=topic_prefix + "worker",
        partitions=2,
        kafka_extra={"auto_commit_interval_ms": 200},
        triton_deadline_s=20,
        score_share=0,  # no blending, so every filled row is the model's
    )
    ensure_topics(settings)
    job = CronJob(settings, tmp_path)
    assert list(job.steps) == ["workspace", "fill-models", "dump", "fit", "rollback"]
    job.run("workspace")
    assert f"{MODEL}: version 1" in job.run("fill-models")
    whole = plant_source(groups=3, days=STEPS / 1440, seed=3)
    load = Load(settings, whole.where(~hide(whole, 0.03, seed=3).mask))
    with LocalTriton(repository, models=[MODEL], control_mode="poll", poll_s=1) as triton:
        served = settings.model_copy(update={"triton": triton.grpc_url})
        with WorkerProcess(served, tmp_path / "worker.log") as worker:
            load.until(DUMPED)
            dumped = job.run("dump")
            assert f"{load.sent} readings of 3 groups of {MODEL}" in dumped
            job.run("fit")
            assert read_contract(repository / MODEL).version == 2
            load.until_answered_by("2")
            assert f"{MODEL}: version 1 is the newest\n" in job.run("rollback")
            load.until_answered_by("1")
            assert worker.stop() == 0
        log = (tmp_path / "worker.log").read_text()
    assert f"{MODEL} now imputes with version 2, trained on readings.parquet" in log
    assert "did not answer" not in log, "no call may fail while versions change"
    assert audit(settings).clean
    made = by_version(rows_of(settings))
    for version in ("1", "2"):
        folder = repository if version == "1" else repository.with_name("repository.withdrawn")
        check_intervals(made[version], folder / MODEL / version)


class Load:
    """The plant's readings, sent a few steps at a time."""

    def __init__(self, settings: Settings, source: Source) -> None:
        self._settings, self._source = settings, source
        self._start_ms = int(source.time_ms[0])
        self.sent = self.step = 0

    def until(self, step: int) -> None:
        """Produce up to this step, and wait until all of it is committed."""
        bounds = [self._start_ms + each * STEP_MS for each in (self.step, step)]
        part = self._source.between(*bounds)
        assert produce(self._settings, part).failed_messages == 0
        self.sent += len(part)
        self.step = step
        wait_until_committed(self._settings, total=self.sent)

    def until_answered_by(self, version: str) -> None:
        """Produce ten steps at a time until at least 5 rows of one portion, and no others, carry the version."""
        for _, step in pairwise(range(self.step, STEPS, 10)):
            begin = self._start_ms + self.step * STEP_MS
            self.until(step)
            newest = [row["model_version"] for row in rows_of(self._settings) if row["ts_ms"] >= begin]
            if newest.count(version) >= 5 and {*newest} <= {"", version}:
                return
        raise AssertionError(f"version {version} never answered")


def rows_of(settings: Settings) -> list[dict[str, Any]]:
    """All published rows, partition by partition, in the order of the topic."""
    found = []
    for records in read_topic(settings, settings.output_topic).values():
        for record in records:
            for row in read_rows(record.value).to_pylist():
                found.append(row | {"ts_ms": int(row["ts"].timestamp() * 1000), "offset": record.offset})
    return found


def by_version(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows that the model filled, by its version."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["method"] in ("model", "blend"):
            found[row["model_version"]].append(row)
    return found


def check_intervals(rows: list[dict[str, Any]], version: Path) -> None:
    """Check that each interval follows from the contract beside the weights."""
    (model,) = read_catalogue(CATALOGUE).models
    table = SensorTable.of(model, read_contract(version))
    assert len(rows) >= 5
    assert table.gap_ages is not None
    for row in rows:
        sensor = model.sensor_ids.index(row["sensor"])
        age = min(int(np.searchsorted(table.gap_ages, row["gap_age"])), len(table.gap_ages) - 1)
        # Provisional rows lie at the window's right edge.
        below, above = (float(each[sensor, age]) for each in table.residuals[not row["final"]])
        resolution, low, high = (float(each[sensor]) for each in (table.resolution, table.low, table.high))
        ends = row["value"] + min(below, -resolution), row["value"] + max(above, resolution)
        np.testing.assert_allclose((row["lower"], row["upper"]), np.clip(ends, low, high), rtol=1e-5, atol=1e-5)
