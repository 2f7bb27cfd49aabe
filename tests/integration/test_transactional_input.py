"""Input that a producer writes in transactions: aborted readings are not there, and markers are no lag."""

import json
import time
import urllib.request
from pathlib import Path

from kafka import KafkaProducer

from deploy.kafka import ExternalKafka, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.audit import audit
from tests.integration.worker_process import WorkerProcess, small_settings

START_MS = 1_700_000_000_000 // 60_000 * 60_000
CATALOGUE = """
models:
  - {name: m, step_s: 60, window: 10, revise_after: 2, max_gap: 5, idle_timeout_s: 100000, sensors: [{id: s0}]}
groups: [{model: m, pattern: "g*"}]
"""
TRANSACTIONS, READINGS = 3, 2
TIMEOUT_S = 60


def lag(settings: Settings) -> float | None:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{settings.metrics_port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:  # the worker is starting
        return None
    return next((float(line.split()[1]) for line in lines if line.startswith("glaim_consumer_lag_records{")), None)


def await_lag(settings: Settings, wanted: float) -> None:
    give_up_s = time.monotonic() + TIMEOUT_S
    while (found := lag(settings)) != wanted:
        assert time.monotonic() < give_up_s, f"expected a lag of {wanted}, found {found}"
        time.sleep(0.2)


def test_the_lag_of_a_transactional_input_is_what_waits(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    settings = small_settings(kafka.bootstrap_servers, topic_prefix, tmp_path, CATALOGUE, metrics_port=choose_port())
    ensure_topics(settings)
    producer = KafkaProducer(bootstrap_servers=settings.kafka, transactional_id=topic_prefix + "plant")
    producer.init_transactions()
    for transaction in range(TRANSACTIONS + 1):
        producer.begin_transaction()
        for minute in range(transaction * READINGS, (transaction + 1) * READINGS):
            reading = {"group": "g1", "sensor": "s0", "ts": START_MS + minute * 60_000, "value": 1.0}
            producer.send(settings.input_topic, json.dumps(reading).encode(), b"g1")
        if transaction < TRANSACTIONS:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()

    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        await_lag(settings, 0)
        hung = KafkaProducer(bootstrap_servers=settings.kafka, transactional_id=topic_prefix + "hung")
        hung.init_transactions()
        hung.begin_transaction()
        hung.send(settings.input_topic, b"{}", b"g1").get(10)
        await_lag(settings, 1)  # what is behind an open transaction waits
        hung.abort_transaction()
        hung.close()
        await_lag(settings, 0)
        assert worker.stop() == 0
    report = audit(settings)
    assert report.clean, report.problems
    assert report.counts["readings"] == TRANSACTIONS * READINGS
