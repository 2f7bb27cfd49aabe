"""Groups that go dark and return: one event each on the outage topic, also when the worker dies in between."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.audit import audit
from tests.integration.worker_process import WorkerProcess, small_settings, wait_until_committed

START_MS = 1_700_000_040_000  # 2023-11-14T22:14:00Z
# A group is dark after more than two silent steps.
CATALOGUE = """
models:
  - {name: m, step_s: STEP, window: 20, revise_after: 2, max_gap: 2, idle_timeout_s: IDLE, sensors: [{id: s0}]}
groups: [{model: m, pattern: "g*"}]
"""


@pytest.fixture
def settings(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Settings:
    step_s, idle_timeout_s = getattr(request, "param", (60, 100_000))  # by default the wall clock closes no step
    catalogue = CATALOGUE.replace("STEP", str(step_s)).replace("IDLE", str(idle_timeout_s))
    return small_settings(
        kafka.bootstrap_servers, topic_prefix, tmp_path, catalogue,
        instance_id="worker-0", kafka_extra={"session_timeout_ms": 6000, "auto_commit_interval_ms": 100},
    )  # fmt: skip


def send(settings: Settings, steps: range, *, step_s: int = 60, dark: range = range(0)) -> int:
    """Send a reading of both groups at every step, except of g1 at dark steps; return the number of readings."""
    readings = [(step, "g1") for step in steps if step not in dark] + [(step, "g2") for step in steps]
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    for step, group in sorted(readings):
        reading = {"group": group, "sensor": "s0", "ts": START_MS + step * step_s * 1000, "value": float(step)}
        producer.send(settings.input_topic, json.dumps(reading).encode(), group.encode(), partition=0)
    producer.close()
    return len(readings)


def outage_events(settings: Settings) -> list[dict[str, Any]]:
    """The events of the outage topic, in order."""
    records = [record for part in read_topic(settings, settings.outage_topic).values() for record in part]
    for record in records:
        assert dict(record.headers)["content-type"] == b"application/json"
        assert json.loads(record.value)["group"].encode() == record.key
    return [json.loads(record.value) for record in records]


@pytest.mark.slow  # quicker: tests/worker/test_dark_groups.py
def test_a_dark_group_is_reported_once_and_once_more_when_it_returns(settings: Settings, tmp_path: Path) -> None:
    ensure_topics(settings)
    worker = WorkerProcess(settings, tmp_path / "worker.log").start()
    dark = range(10, 20)
    sent = send(settings, range(15), dark=dark)
    wait_until_committed(settings, total=sent)
    g1_events = [each for each in outage_events(settings) if each["group"] == "g1"]
    assert g1_events[-1] == {
        "group": "g1", "model": "m", "kind": "dark",
        "ts": "2023-11-14T22:26:00Z", "last_ts": "2023-11-14T22:23:00Z", "by_clock": False,
    }  # fmt: skip

    worker.kill()  # the restarted worker rebuilds its windows and must not repeat the event
    worker.start()
    sent += send(settings, range(15, 30), dark=dark)
    wait_until_committed(settings, total=sent)
    assert worker.stop() == 0
    events = outage_events(settings)
    g1_events = [each for each in events if each["group"] == "g1"]
    assert g1_events[-1] == {
        "group": "g1", "model": "m", "kind": "speaks",
        "ts": "2023-11-14T22:34:00Z", "last_ts": "2023-11-14T22:23:00Z", "by_clock": False,
    }  # fmt: skip
    # Each group has one event when it is first seen, and only g1 was dark.
    assert [(each["group"], each["kind"]) for each in events] == [
        ("g1", "speaks"),
        ("g2", "speaks"),
        ("g1", "dark"),
        ("g1", "speaks"),
    ]
    report = audit(settings)
    assert report.clean, report.problems
    assert (report.counts["outages"], report.counts["outages_judged"]) == (4, 4)
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    admin.delete_records({TopicPartition(settings.outage_topic, 0): 1})  # as retention would
    admin.close()
    report = audit(settings)
    assert report.clean, report.problems
    assert "outages_judged" not in report.counts
    assert any("its outages are not judged" in warning for warning in report.warnings)


@pytest.mark.slow  # quicker: tests/worker/test_dark_groups.py
@pytest.mark.parametrize("settings", [(1, 1)], indirect=True)
def test_an_outage_of_the_whole_plant_is_reported_by_the_clock_and_confirmed_by_later_readings(
    settings: Settings, tmp_path: Path
) -> None:
    ensure_topics(settings)
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        sent = send(settings, range(10), step_s=1)
        wait_until_committed(settings, total=sent)
        deadline_s = time.monotonic() + 30
        while sum(each["kind"] == "dark" for each in outage_events(settings)) < 2:
            assert time.monotonic() < deadline_s, outage_events(settings)
            time.sleep(0.2)
        time.sleep(3)  # no more events while the outage lasts
        sent += send(settings, range(100, 110), step_s=1)
        wait_until_committed(settings, total=sent)
        assert worker.stop() == 0
    for group in ("g1", "g2"):
        assert [(each["kind"], each["by_clock"]) for each in outage_events(settings) if each["group"] == group] == [
            ("speaks", False),
            ("dark", True),
            ("dark", False),  # confirms the clock's event
            ("speaks", False),
        ]
    report = audit(settings)
    assert report.clean, report.problems
    assert report.counts["outages_judged"] == report.counts["outages"] == 6, "events of the clock must not be judged"


@pytest.mark.parametrize("settings", [(1, 4)], indirect=True)
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_worker_that_starts_while_its_partition_is_quiet_closes_it_by_the_clock(
    settings: Settings, tmp_path: Path, delivery: str
) -> None:
    settings = settings.model_copy(update={"delivery": delivery})
    ensure_topics(settings)
    worker = WorkerProcess(settings, tmp_path / "worker.log").start()
    sent = send(settings, range(10), step_s=1)
    wait_until_committed(settings, total=sent)
    worker.kill()
    with worker:
        deadline_s = time.monotonic() + 60
        while [each["kind"] for each in outage_events(settings)].count("dark") < 2:
            assert worker.running, worker.log.read_text()
            assert time.monotonic() < deadline_s, worker.log.read_text()
            time.sleep(0.2)
        sent += send(settings, range(100, 110), step_s=1)
        wait_until_committed(settings, total=sent)
        assert worker.stop() == 0
    report = audit(settings)
    assert report.clean, report.problems
    assert report.counts["outages_judged"] == 6, "also where markers of transactions take offsets"
    assert report.warnings == []
