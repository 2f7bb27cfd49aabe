"""A worker on a real broker, while a real Triton loads a bad version of one of two models."""

import shutil
import time
import urllib.request
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import yaml

from deploy.cache import CHECKOUT
from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from deploy.triton import LocalTriton
from deploy.triton_install import unsupported_reason
from glaim_stream.core.contract import file_digest, read_contract, write_contract
from glaim_stream.core.settings import Settings
from glaim_stream.feed import hide, plant_source, produce
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.audit import audit
from glaim_stream.output import read_rows
from tests.integration.bad_versions import wait_until_served
from tests.integration.worker_process import WorkerProcess, plant_settings, wait_until_committed, without_forms

pytestmark = [
    pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason())),
    pytest.mark.slow,  # quicker: tests/imputers/test_bad_versions.py
]

STEP_MS = 60_000
GOOD, AGAIN = "plant-pump", "plant-again"


class NotFinite(torch.nn.Module):
    """Answers NaN in the shape of the plant's model."""

    def forward(self, values: torch.Tensor, observed: torch.Tensor) -> torch.Tensor:
        return values[:, :, -16:] * float("nan")


@pytest.fixture
def two_models(tmp_path: Path) -> dict[str, Path]:
    """The plant's model under two names, each for two of four pumps."""
    repository = without_forms(tmp_path)
    shutil.rmtree(repository / "beijing-air")
    again = Path(shutil.copytree(repository / GOOD, repository / AGAIN))
    (again / "1" / "manifest.json").unlink()
    for file in (again / "config.pbtxt", *(again / "configs").iterdir()):
        file.write_text(file.read_text().replace(f'name: "{GOOD}"', f'name: "{AGAIN}"'))
    for folder in (again, again / "1"):
        write_contract(read_contract(folder).model_copy(update={"name": AGAIN}), folder)
    document = yaml.safe_load((CHECKOUT / "deploy" / "catalogues" / "plant.yaml").read_text())
    (model,) = document["models"]
    document["models"].append(model | {"name": AGAIN})
    pumps = plant_source(groups=4, days=2 / 1440, seed=3).groups
    document["groups"] = [{"model": name, "pattern": pump} for name, pump in zip([GOOD, AGAIN] * 2, pumps, strict=True)]
    catalogue = tmp_path / "groups.yaml"
    catalogue.write_text(yaml.safe_dump(document))
    return {"catalogue": catalogue, "model_repository": repository}


def add_bad_version(repository: Path) -> None:
    made = repository.with_name("made") / "2"
    made.mkdir(parents=True)
    shutil.copy(repository / AGAIN / "1" / "model.py", made)
    torch.jit.script(NotFinite()).save(str(made / "model.pt"))
    digest = file_digest(made / "model.pt")
    first = read_contract(repository / AGAIN)
    write_contract(first.model_copy(update={"version": 2, "torchscript_sha256": digest}), made)
    made.rename(repository / AGAIN / "2")


def refused(settings: Settings) -> list[str]:
    with urllib.request.urlopen(f"http://{LOOPBACK}:{settings.metrics_port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return [line for line in lines if line.startswith("glaim_model_version_refused{")]


def test_every_hole_is_filled_by_a_good_version_while_a_bad_one_comes_and_goes(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, two_models: dict[str, Path], tmp_path: Path
) -> None:
    repository = two_models["model_repository"]
    with LocalTriton(repository, control_mode="poll", poll_s=1) as triton:
        settings = plant_settings(
            kafka.bootstrap_servers,
            topic_prefix,
            partitions=1,  # both models in every batch
            kafka_extra={"auto_commit_interval_ms": 200},
            triton=triton.grpc_url,
            triton_deadline_s=30,  # a slow machine is no failure of the model
            score_share=0,  # no blend: a value is made by the model or without it
            metrics_host=LOOPBACK,
            metrics_port=choose_port(),
        ).model_copy(update=two_models)
        ensure_topics(settings)
        whole = plant_source(groups=4, days=60 / 1440, seed=3)
        source = whole.where(~hide(whole, 0.15, seed=3).mask)
        start_ms = int(source.time_ms[0])
        with WorkerProcess(settings, tmp_path / "worker.log") as worker:
            sent = 0
            for part_number, (first, until) in enumerate(pairwise(range(0, 61, 6))):
                if part_number == 3:
                    add_bad_version(repository)
                    wait_until_served(triton.grpc_url, AGAIN, "1", "2")
                part = source.between(start_ms + first * STEP_MS, start_ms + until * STEP_MS)
                assert produce(settings, part).failed_messages == 0
                sent += len(part)
                wait_until_committed(settings, total=sent)
            (line,) = refused(settings)
            assert line.endswith(" 1.0")
            assert f'model="{AGAIN}"' in line
            assert 'reason="not_finite"' in line
            assert 'version="2"' in line
            shutil.rmtree(repository / AGAIN / "2")  # as a rollback does
            give_up = time.monotonic() + 90
            while refused(settings):
                assert time.monotonic() < give_up, "a withdrawn version must no longer be named"
                time.sleep(0.5)
            assert worker.stop() == 0
    made = Counter[tuple[str, str, str | None]]()
    for record in read_topic(settings, settings.output_topic)[0]:
        model = dict(record.headers)["glaim-model"].decode()
        for row in read_rows(record.value).to_pylist():
            if row["value"] is not None and row["method"] != "observed":
                made[model, row["method"], row["model_version"]] += 1
    assert set(made) == {(GOOD, "model", "1"), (AGAIN, "model", "1")}
    assert min(made.values()) > 50
    report = audit(settings)
    assert report.clean, report.problems
