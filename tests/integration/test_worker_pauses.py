"""A worker whose output topic rejects every row: it pauses, stays in its consumer group, and resumes."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.feed import plant_source, produce
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.audit import audit
from tests.constants import BATCHES_IN_FLIGHT, program
from tests.integration.worker_process import environment_of, plant_settings, wait_until_committed

POLL_INTERVAL_S = 3.0  # with the default, the pause would have to last 1000 s


@pytest.mark.slow  # quicker: the retries in tests/kafka/test_publish.py
def test_a_topic_that_rejects_every_row_pauses_the_worker_and_loses_nothing(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    settings = plant_settings(
        kafka.bootstrap_servers,
        topic_prefix,
        imputer="interpolation",
        partitions=2,
        kafka_extra={
            "session_timeout_ms": 6000,
            "auto_commit_interval_ms": 200,
            "max_poll_records": 200,
            "max_poll_interval_ms": int(POLL_INTERVAL_S * 1000),
        },
        metrics_port=0,
    )
    ensure_topics(settings)
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    log = tmp_path / "worker.log"
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, *program({BATCHES_IN_FLIGHT: 1}), "worker"],
            env=environment_of(settings),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        limit(admin, settings.output_topic, 1_000)  # a message with one row has about 3,200 bytes
        source = plant_source(groups=20, days=20 / 1440, seed=3)  # 2,800 readings: all partitions are full of batches
        assert produce(settings, source).failed_messages == 0
        end_s = time.monotonic() + 60
        while "refuses a single row" not in log.read_text():
            assert worker.poll() is None, log.read_text()
            assert time.monotonic() < end_s, log.read_text()
            time.sleep(0.1)
        time.sleep(2.5 * POLL_INTERVAL_S)
        limit(admin, settings.output_topic, 1_000_000)
        wait_until_committed(settings, total=len(source))
        assert worker.poll() is None, "the worker must keep running"
        worker.terminate()
        assert worker.wait(30) == 0
    finally:
        admin.close()
        worker.kill()
        worker.wait()
    logged = log.read_text()
    assert logged.count("partitions assigned: ") == 1, "the worker must stay in its group"
    assert "Traceback" not in logged
    report = audit(settings)
    assert report.clean, report.problems


def limit(admin: KafkaAdminClient, topic: str, max_bytes: int) -> None:
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": str(max_bytes)})])
