"""Readings that arrive after their window has passed go to a separate topic, with their lateness."""

import json
from pathlib import Path

import pytest
from kafka import KafkaProducer

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.audit import audit
from tests.integration.worker_process import WorkerProcess, small_settings, wait_until_committed

START_MS = 1_700_000_000_000 // 60_000 * 60_000
CATALOGUE = """
models:
  - {name: m, step_s: 60, window: 10, revise_after: 2, max_gap: 5, lateness_s: 30, idle_timeout_s: 100000,
     sensors: [{id: s0, max: 50}]}
groups: [{model: m, pattern: "g*"}]
"""


def reading(minute: float, value: float = 1.0) -> dict[str, object]:
    return {"group": "g1", "sensor": "s0", "ts": START_MS + int(minute * 60_000), "value": value}


@pytest.mark.slow  # quicker: tests/operate/audit/test_arrivals.py and tests/windows/test_lateness.py
def test_late_readings_are_kept_with_their_lateness_and_audited(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    settings = small_settings(kafka.bootstrap_servers, topic_prefix, tmp_path, CATALOGUE)
    assert set(ensure_topics(settings)) == set(settings.topics)
    mixed = {"group": "g1", "readings": [reading(31), reading(3), reading(4), reading(31, 99)]}
    sent = [reading(minute) for minute in range(30)] + [reading(2.5), mixed]
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    for each in sent:
        producer.send(settings.input_topic, json.dumps(each).encode(), b"g1")
    producer.close()
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        wait_until_committed(settings, total=len(sent))
        assert worker.stop() == 0

    single, several = [record for part in read_topic(settings, settings.late_topic).values() for record in part]
    headers = dict(single.headers)
    assert (single.key, json.loads(single.value)) == (b"g1", reading(2.5))
    assert (headers["glaim-cause"], headers["glaim-positions"]) == (b"too-late", b"[0]")
    # The newest reading is of minute 29 and 30 s of lateness are allowed, so the watermark is at minute 28.5.
    assert json.loads(headers["glaim-late-by-ms"]) == {"0": 26 * 60_000}
    assert json.loads(dict(several.headers)["glaim-late-by-ms"]) == {"1": 27.5 * 60_000, "2": 26.5 * 60_000}
    (rejected,) = [record for part in read_topic(settings, settings.dlq_topic).values() for record in part]
    assert (rejected.value, dict(rejected.headers)["glaim-positions"]) == (several.value, b"[3]")
    assert dict(rejected.headers)["glaim-cause"] == b"out-of-limits"

    report = audit(settings)
    assert report.clean, report.problems
    assert report.dead_letters == {"too-late": 3, "out-of-limits": 1}
    lost = audit(settings.model_copy(update={"topic_names": {"late": topic_prefix + "absent"}}))
    assert (lost.lost, lost.problems["missing_dead_letters"].count) == (3, 3)
