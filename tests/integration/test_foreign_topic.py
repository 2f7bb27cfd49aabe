"""A topic of another platform's records alone: log, health, page and check say so, and nothing restarts."""

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from deploy.kafka import ExternalKafka, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from glaim_stream.kafka import ensure_topics
from tests.browser import chromium
from tests.integration.worker_process import WorkerProcess, call_command, plant_settings

pytestmark = pytest.mark.slow  # quicker: tests/worker/test_unusable.py, tests/page/test_server.py

SOON = {"glaim_stream.worker.unusable:_SETTLING_S": 1, "glaim_stream.worker.unusable:INTERVAL_S": 0.5}
SAID = "records cannot be used in whole or in part"
FOREIGN = b"\0\0\0\0\x2a\2x"  # as a schema registry writes Avro


def fetched(port: int, path: str) -> tuple[int, Any]:
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}{path}", timeout=10) as answer:
        return answer.status, json.load(answer)


def test_a_foreign_topic_is_said_in_the_log_in_health_on_the_page_and_by_check(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    port, page, log = choose_port(), choose_port(), tmp_path / "worker.log"
    settings = plant_settings(
        kafka.bootstrap_servers, topic_prefix, imputer="interpolation", partitions=2, page=str(page),
        metrics_host=LOOPBACK, metrics_port=port,
    )  # fmt: skip
    ensure_topics(settings)
    producer = KafkaProducer(bootstrap_servers=settings.kafka)

    def send(count: int) -> None:
        for number in range(count):
            producer.send(settings.input_topic, FOREIGN, partition=number % 2)
        producer.flush()

    send(500)
    with WorkerProcess(settings, log, constants=SOON) as worker, chromium(tmp_path) as browser:
        begun_s = time.monotonic()
        while SAID not in log.read_text():
            assert time.monotonic() < begun_s + 90, log.read_text()[-2000:]
            assert worker.running
            time.sleep(0.5)
            send(10)
        browser.new_tab()
        browser.open(f"http://{LOOPBACK}:{page}/")
        browser.until("document.querySelector('#health').className === 'badge bad'")
        assert SAID in browser.run("document.querySelector('#health').textContent")
        assert browser.run("document.querySelector('#rejected-list b').textContent") == "undecodable"
        example = str(browser.run("document.querySelector('#rejected-list p').textContent"))
        assert example.startswith("partition ")
        assert "begins like Avro of a schema registry (id 42)" in example
        assert browser.run("document.querySelector('#group-title').textContent") == "No group yet"
        assert browser.problems == []
        for path in ("/health/ready", "/health/live", "/health"):
            status, document = fetched(port, path)
            assert status == 200, (path, document)
        (why,) = document["degraded"]
        assert "undecodable" in why
        assert "offset" in why
        send(10)
        time.sleep(3)  # judged six times more
        assert worker.stop() == 0
    line, *more = [line for line in log.read_text().splitlines() if SAID in line]
    assert len(more) <= (time.monotonic() - begun_s) // 60, "at most one a minute"
    assert "WARN" in line
    assert "undecodable" in line
    assert "for example partition " in line
    done = call_command(settings, "check", "--only", "kafka")
    assert done.returncode == 1, done.stdout
    (finding,) = [line for line in done.stdout.splitlines() if f"records of {settings.input_topic}" in line]
    assert finding.startswith("failed")
    assert "undecodable" in finding
    producer.close()
