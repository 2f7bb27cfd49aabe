"""After an outage of a real Triton, its model makes the finals of the outage again."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT
from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.triton import LocalTriton
from deploy.triton_install import unsupported_reason
from glaim_stream.feed import hide, plant_source, produce
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.audit import audit
from glaim_stream.output import newest_revisions, read_rows
from tests.constants import BREAKER_REST
from tests.integration.worker_process import WorkerProcess, plant_settings, wait_until_committed, without_forms

STEP_MS = 60_000


@pytest.mark.slow  # quicker: tests/windows/test_upgrades.py and tests/chaos/test_triton_fails.py
def test_finals_of_an_outage_of_triton_are_made_again(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    with LocalTriton(CHECKOUT / "model_repo", models=["plant-pump"]) as triton:
        settings = plant_settings(
            kafka.bootstrap_servers,
            topic_prefix,
            partitions=2,
            kafka_extra={"auto_commit_interval_ms": 200},
            triton=triton.grpc_url,
            triton_deadline_s=2,
        ).model_copy(update={"model_repository": without_forms(tmp_path)})
        ensure_topics(settings)
        whole = plant_source(groups=4, days=160 / 1440, seed=3)
        source = whole.where(~hide(whole, 0.15, seed=3).mask)
        start_ms = int(source.time_ms[0])
        # down for the finals of some 20 steps; then small portions, because each batch upgrades what waited before it
        edges = [0, 80, 100, *range(110, 160, 10), 160]
        with WorkerProcess(settings, tmp_path / "worker.log", constants={BREAKER_REST: 0.5}) as worker:
            sent = 0
            for first, until in pairwise(edges):
                if first == 80:
                    triton.kill()
                if first == 100:
                    triton.restart()
                part = source.between(start_ms + first * STEP_MS, start_ms + until * STEP_MS)
                assert produce(settings, part).failed_messages == 0
                sent += len(part)
                wait_until_committed(settings, total=sent)
            assert worker.stop() == 0
    report = audit(settings)
    assert report.clean, report.problems
    tables = [read_rows(r.value) for part in read_topic(settings, settings.output_topic).values() for r in part]
    rows = [row for table in tables for row in table.to_pylist()]
    upgraded = [row for row in rows if row["revision"] == 2]
    assert len(upgraded) > 20
    assert all(row["final"] and not row["observed"] for row in upgraded)
    # Where a baseline had smaller recent errors, the upgraded value is that baseline alone.
    assert sum(row["method"] in ("model", "blend") for row in upgraded) > 0.5 * len(upgraded)
    newest = Counter(newest_revisions(tables)["revision"].to_pylist())
    assert newest[2] == len(upgraded), "each cell must be upgraded once, as its newest revision"
