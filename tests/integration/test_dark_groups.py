"""Groups that go dark and speak again: one event each on the outage topic, also when the worker dies in between."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.audit import audit
from glaim_stream.kafka.topics import ensure_topics
from glaim_stream.settings import Settings
from tests.integration.worker_process import WorkerProcess, wait_until_committed

START_MS = 1_700_000_040_000  # 2023-11-14T22:14:00Z
# Silent for more than two steps is dark.
CATALOGUE = """
models:
  - {name: m, step_s: STEP, window: 20, revise_after: 2, max_gap: 2, idle_timeout_s: IDLE, sensors: [{id: s0}]}
groups: [{model: m, pattern: "g*"}]
"""


@pytest.fixture
def settings(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Settings:
    step_s, idle_timeout_s = getattr(request, "param", (60, 100_000))  # the wall clock says nothing unless asked
    catalogue = CATALOGUE.replace("STEP", str(step_s)).replace("IDLE", str(idle_timeout_s))
    (tmp_path / "groups.yaml").write_text(catalogue)
    return Settings(
        kafka=kafka.bootstrap_servers,
        input_topic=topic_prefix + "in",
        output_topic=topic_prefix + "out",
        consumer_group=topic_prefix + "worker",
        instance_id="worker-0",
        session_timeout_s=6,
        catalogue=tmp_path / "groups.yaml",
        imputer="interpolation",
        partitions=1,
        commit_interval_s=0.1,
    )


def send(settings: Settings, steps: range, *, step_s: int = 60, dark: range = range(0)) -> int:
    """Both groups speak at every step, but g1 not at those that are dark; returns how many readings were sent."""
    spoken = [(step, "g1") for step in steps if step not in dark] + [(step, "g2") for step in steps]
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    for step, group in sorted(spoken):
        reading = {"group": group, "sensor": "s0", "ts": START_MS + step * step_s * 1000, "value": float(step)}
        producer.send(settings.input_topic, json.dumps(reading).encode(), group.encode(), partition=0)
    producer.close()
    return len(spoken)


def told(settings: Settings) -> list[dict[str, Any]]:
    """What the outage topic says, in order."""
    records = [record for part in read_topic(settings, settings.outage_topic).values() for record in part]
    for record in records:
        assert dict(record.headers)["content-type"] == b"application/json"
        assert json.loads(record.value)["group"].encode() == record.key
    return [json.loads(record.value) for record in records]


def test_a_group_that_goes_dark_is_told_once_and_once_when_it_comes_back(settings: Settings, tmp_path: Path) -> None:
    ensure_topics(settings)
    worker = WorkerProcess(settings, tmp_path / "worker.log").start()
    dark = range(10, 20)
    sent = send(settings, range(15), dark=dark)
    wait_until_committed(settings, all_of=sent)
    of_g1 = [each for each in told(settings) if each["group"] == "g1"]
    assert of_g1[-1] == {
        "group": "g1", "model": "m", "kind": "dark",
        "ts": "2023-11-14T22:26:00Z", "last_ts": "2023-11-14T22:23:00Z", "by_clock": False,
    }  # fmt: skip

    worker.kill()  # the next one makes its windows anew, and knows what has been told
    worker.start()
    sent += send(settings, range(15, 30), dark=dark)
    wait_until_committed(settings, all_of=sent)
    assert worker.stop() == 0
    events = told(settings)
    of_g1 = [each for each in events if each["group"] == "g1"]
    assert of_g1[-1] == {
        "group": "g1", "model": "m", "kind": "speaks",
        "ts": "2023-11-14T22:34:00Z", "last_ts": "2023-11-14T22:23:00Z", "by_clock": False,
    }  # fmt: skip
    # A group is new once, too, and only one of the two was ever dark.
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


@pytest.mark.parametrize("settings", [(1, 1)], indirect=True)
def test_a_plant_that_goes_dark_as_a_whole_is_told_by_the_clock_and_then_by_the_readings_that_follow(
    settings: Settings, tmp_path: Path
) -> None:
    ensure_topics(settings)
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        sent = send(settings, range(10), step_s=1)
        wait_until_committed(settings, all_of=sent)
        deadline_s = time.monotonic() + 30
        while sum(each["kind"] == "dark" for each in told(settings)) < 2:
            assert time.monotonic() < deadline_s, told(settings)
            time.sleep(0.2)
        time.sleep(3)  # as long as it lasts, nothing more is said
        sent += send(settings, range(100, 110), step_s=1)
        wait_until_committed(settings, all_of=sent)
        assert worker.stop() == 0
    for group in ("g1", "g2"):
        assert [(each["kind"], each["by_clock"]) for each in told(settings) if each["group"] == group] == [
            ("speaks", False),
            ("dark", True),
            ("dark", False),  # it confirms what the clock had said
            ("speaks", False),
        ]
    report = audit(settings)
    assert report.clean, report.problems
    assert report.counts["outages_judged"] == report.counts["outages"] == 6, "the clock's claims are not judged"
