"""A real Triton is killed and stays down: with `fallback_local` the worker runs the same model itself."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT
from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from deploy.triton import LocalTriton
from deploy.triton_install import unsupported_reason
from glaim_stream.core.settings import Settings
from glaim_stream.feed.dropouts import hide
from glaim_stream.feed.produce import produce
from glaim_stream.feed.sources import plant_source
from glaim_stream.kafka.topics import ensure_topics
from glaim_stream.operate.audit import audit
from glaim_stream.output.records import read_rows
from tests.integration.worker_process import WorkerProcess, plant_settings, wait_until_committed

pytestmark = pytest.mark.chaos

STEP_MS = 60_000


def test_the_worker_runs_the_model_itself_when_triton_dies(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    pytest.importorskip("torch")
    with LocalTriton(CHECKOUT / "model_repo", models=["plant-pump"]) as triton:
        settings = plant_settings(
            kafka.bootstrap_servers,
            topic_prefix,
            partitions=1,
            commit_interval_s=0.2,
            triton=triton.grpc_url,
            triton_deadline_s=2,
            breaker_rest_s=30,
            fallback_local=True,
            score_share=0,  # no blending, so every filled value has the method `model`
            metrics_host=LOOPBACK,
            metrics_port=choose_port(),
        )
        ensure_topics(settings)
        whole = plant_source(groups=3, days=60 / 1440, seed=3)
        source = whole.where(~hide(whole, 0.15, seed=3).mask)
        middle_ms = int(source.time_ms[0]) + 30 * STEP_MS
        before = source.between(int(source.time_ms[0]), middle_ms)
        after = source.between(middle_ms, int(source.time_ms[-1]) + STEP_MS)
        with WorkerProcess(settings, tmp_path / "worker.log") as worker:
            assert produce(settings, before).failed_messages == 0
            wait_until_committed(settings, total=len(before))
            assert states(settings) == {"triton": 0, "local": 0, "gaussian": 0}
            messages = len(read_topic(settings, settings.output_topic)[0])
            triton.kill()
            assert produce(settings, after).failed_messages == 0
            wait_until_committed(settings, total=len(source))
            assert states(settings) == {"triton": 2, "local": 0, "gaussian": 0}, "2: the breaker skips Triton"
            assert worker.stop() == 0
    records = read_topic(settings, settings.output_topic)[0]
    for part in (records[:messages], records[messages:]):
        rows = [row for record in part for row in read_rows(record.value).to_pylist() if not row["observed"]]
        assert len(rows) > 30
        assert {row["method"] for row in rows if row["value"] is not None} == {"model"}
    report = audit(settings)
    assert report.clean, report.problems


def states(settings: Settings) -> dict[str, int]:
    """The breaker state of each rung: 0 closed, 2 open."""
    with urllib.request.urlopen(f"http://{LOOPBACK}:{settings.metrics_port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        name: int(float(value))
        for name, value in re.findall(r'^glaim_imputer_state\{imputer="(\w+)",model="plant-pump"\} (\S+)$', text, re.M)
    }
