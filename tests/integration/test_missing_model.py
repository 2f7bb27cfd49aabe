"""The real Triton lacks one of two models: every hole of the other is still filled by its model."""

from __future__ import annotations

import re
import urllib.request
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from deploy.cache import CHECKOUT
from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from deploy.triton import ExternalTriton, LocalTriton
from glaim_stream.core.contract import read_contract, write_contract
from glaim_stream.core.settings import Settings
from glaim_stream.feed import hide, plant_source, produce
from glaim_stream.imputers import State
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.audit import audit
from glaim_stream.output import read_rows
from tests.integration.worker_process import WorkerProcess, plant_settings, wait_until_committed, without_forms

STEP_MS = 60_000
MISSING = "plant-gone"


@pytest.fixture
def with_missing_model(tmp_path: Path) -> dict[str, Path]:
    """The plant's model for two of its pumps, and for the others one that has a contract and is not served."""
    repository = without_forms(tmp_path)
    contract = read_contract(repository / "plant-pump")
    (repository / MISSING).mkdir()
    write_contract(contract.model_copy(update={"name": MISSING}), repository / MISSING)
    document = yaml.safe_load((CHECKOUT / "deploy" / "catalogues" / "plant.yaml").read_text())
    (model,) = document["models"]
    document["models"].append(model | {"name": MISSING})
    pumps = plant_source(groups=4, days=2 / 1440, seed=3).groups
    document["groups"] = [
        {"model": name, "pattern": pump} for name, pump in zip(["plant-pump", MISSING] * 2, pumps, strict=True)
    ]
    catalogue = tmp_path / "groups.yaml"
    catalogue.write_text(yaml.safe_dump(document))
    return {"catalogue": catalogue, "model_repository": repository}


def by_model(settings: Settings, metric: str) -> dict[str, float]:
    """The rung's samples of a metric."""
    with urllib.request.urlopen(f"http://{LOOPBACK}:{settings.metrics_port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(rf'^{metric}{{imputer="triton",model="([\w-]+)"}} (\S+)$', text, re.M)
    return {model: float(value) for model, value in found}


@pytest.mark.slow  # quicker: tests/imputers/test_models_apart.py
def test_a_model_that_triton_lacks_costs_the_other_no_answer(
    kafka: LocalKafka | ExternalKafka,
    triton: LocalTriton | ExternalTriton,
    topic_prefix: str,
    with_missing_model: dict[str, Path],
    tmp_path: Path,
) -> None:
    settings = plant_settings(
        kafka.bootstrap_servers,
        topic_prefix,
        partitions=1,  # both models in every batch
        commit_interval_s=0.2,
        triton=triton.grpc_url,
        triton_deadline_s=20,  # a slow machine is no failure of the model
        breaker_rest_s=0.5,
        score_share=0,  # no blend: a value is made by the model or without it
        metrics_host=LOOPBACK,
        metrics_port=choose_port(),
    ).model_copy(update=with_missing_model)
    ensure_topics(settings)
    whole = plant_source(groups=4, days=60 / 1440, seed=3)
    source = whole.where(~hide(whole, 0.15, seed=3).mask)
    start_ms = int(source.time_ms[0])
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        sent = 0
        for first, until in pairwise(range(0, 61, 6)):  # some meet an open breaker, some a trial
            part = source.between(start_ms + first * STEP_MS, start_ms + until * STEP_MS)
            assert produce(settings, part).failed_messages == 0
            sent += len(part)
            wait_until_committed(settings, total=sent)
        state = by_model(settings, "glaim_imputer_state")
        failures = by_model(settings, "glaim_imputer_failures_total")
        assert worker.stop() == 0
    made = {"plant-pump": Counter[str](), MISSING: Counter[str]()}
    for record in read_topic(settings, settings.output_topic)[0]:
        model = dict(record.headers)["glaim-model"].decode()
        made[model].update(row["method"] for row in read_rows(record.value).to_pylist() if row["value"] is not None)
    assert set(made["plant-pump"]) == {"observed", "model"}
    assert made["plant-pump"]["model"] > 50
    assert "model" not in made[MISSING]
    assert made[MISSING]["interpolation"] + made[MISSING]["last_value"] > 50
    assert state["plant-pump"] == State.CLOSED
    assert state[MISSING] != State.CLOSED
    assert failures["plant-pump"] == 0
    report = audit(settings)
    assert report.clean, report.problems
