"""Real readings with real gaps through Kafka, the worker and Triton: each is published or a dead letter, once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT
from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.triton import ExternalTriton, LocalTriton
from glaim_stream.core.settings import Settings
from glaim_stream.feed import Source, produce, read_source
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.audit import audit
from tests.integration.worker_process import WorkerProcess, wait_until_committed

DATA = Path(os.environ.get("GLAIM_DATA", CHECKOUT.parent / "shared" / "data")) / "beijing_multisite.parquet"
HOURS = 700
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def stations() -> Source:
    """The last hours of the twelve stations, which belong to the model's test part."""
    if not DATA.exists():
        pytest.skip(f"no {DATA.name} in the folder that GLAIM_DATA names")
    whole = read_source(DATA)
    return whole.between(int(whole.time_ms[-1]) - HOURS * HOUR_MS, None)


@pytest.mark.slow  # quicker: the plant's readings through the same parts in test_cli_commands.py
@pytest.mark.timeout(900)  # a minute alone; the model takes all of a core that other tests want too
def test_every_beijing_reading_is_published_exactly_once(
    stations: Source,
    kafka: LocalKafka | ExternalKafka,
    triton: LocalTriton | ExternalTriton,
    topic_prefix: str,
    tmp_path: Path,
) -> None:
    catalogue = tmp_path / "beijing.yaml"
    served = (CHECKOUT / "deploy" / "catalogues" / "beijing.yaml").read_text()
    # Where other tests take the machine for more than the 5 s of the demo, the wall clock would close steps too.
    catalogue.write_text(served.replace("idle_timeout_s: 5 ", "idle_timeout_s: 100000 "))
    settings = Settings(
        kafka=kafka.bootstrap_servers,
        triton=triton.grpc_url,
        catalogue=catalogue,
        model_repository=CHECKOUT / "model_repo",
        input_topic=topic_prefix + "in",
        output_topic=topic_prefix + "out",
        consumer_group=topic_prefix + "worker",
        triton_deadline_s=60,  # the whole replay arrives at once, on a machine that runs the servers too
    )
    ensure_topics(settings)
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        sent = produce(settings, stations)
        assert (sent.readings, sent.failed_messages) == (len(stations), 0)
        wait_until_committed(settings, deadline_s=500)
        assert worker.stop() == 0

    report = audit(settings)
    assert report.clean, report.problems
    counts = report.counts
    assert counts["readings"] == counts["keys"] == len(stations)
    # The last step of each partition is open until a later hour arrives or the wall clock publishes it.
    assert counts["found"] + counts["open"] == len(stations)
    assert counts["open"] <= len(stations.cells)
    assert counts["identical_duplicates"] == counts["closed_by_clock_duplicates"] == 0
    assert counts["silent_steps"] > 0, "the stations' real gaps must appear"
    topics = (settings.dlq_topic, settings.late_topic)
    letters = [letter for topic in topics for part in read_topic(settings, topic).values() for letter in part]
    assert len(letters) == sum(report.dead_letters.values())
