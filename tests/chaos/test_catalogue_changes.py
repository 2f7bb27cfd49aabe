"""A sensor is added, removed, renamed while the stream runs: unknown ones wait among the dead letters."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import Scenario
from tests.chaos.stream import CATALOGUE, Sent, messages
from tests.integration.worker_process import WorkerProcess

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

BEFORE = "[{id: s0, min: -50, max: 50}, {id: s1}, {id: s2}]"


def renamed(sent: Sent, names: dict[str, str]) -> Sent:
    """The same readings with other names of sensors."""
    out: Sent = []
    for key, value, headers in sent:
        document = json.loads(value or b"")
        document["sensor"] = names.get(document["sensor"], document["sensor"])
        out.append((key, json.dumps(document).encode(), headers))
    return out


def change(it: Scenario, worker: WorkerProcess, sensors: str) -> None:
    """What an operator does: the worker ends in order, its catalogue changes, it starts again."""
    it.stop(worker)
    assert BEFORE in CATALOGUE
    it.settings.catalogue.write_text(CATALOGUE.replace(BEFORE, sensors))
    it.again(worker)


@pytest.mark.parametrize(
    ("what", "sensors", "names", "unknown_before", "unknown_after"),
    [
        ("added", BEFORE[:-1] + ", {id: s3}]", {"s2": "s3"}, "s3", ""),
        ("removed", "[{id: s0, min: -50, max: 50}, {id: s1}]", {}, "", "s2"),
        ("renamed", BEFORE.replace("s2", "t2"), {"s2": "t2"}, "t2", ""),
    ],
)
def test_a_sensor_changes_mid_stream(
    what: str, sensors: str, names: dict[str, str], unknown_before: str, unknown_after: str,
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario,
) -> None:  # fmt: skip
    it = scenario(kafka.bootstrap_servers, f"a sensor {what} mid-stream, catalogue changed, worker restarted")
    sent = messages(steps=120, seed=18, late=0, bad=False)
    third = len(sent) // 3
    parts = [sent[:third], renamed(sent[third : 2 * third], names), renamed(sent[2 * third :], names)]
    worker = it.worker()
    done = 0
    for part in parts[:2]:  # the second one as the old catalogue sees it: devices change before catalogues do
        done += len(part)
        with it.streaming(part, rate_per_s=10_000):
            it.wait(all_of=done)
    first_audit = it.audited()
    changed_at = {number: len(part) for number, part in read_topic(it.settings, it.settings.input_topic).items()}
    change(it, worker, sensors)
    with it.streaming(parts[2], rate_per_s=10_000):
        it.wait(all_of=len(sent))
    it.stop()
    report = it.end(from_offset=changed_at)
    letters = Counter(
        json.loads(record.value)["sensor"]
        for part in read_topic(it.settings, it.settings.dlq_topic).values()
        for record in part
    )
    assert set(letters) == {name for name in (unknown_before, unknown_after) if name}
    assert first_audit.lost == report.lost == 0
    if what != "removed":
        new = {key for message in it.published() for key, row in message.items() if key[1] == unknown_before and row[1]}
        assert new, "the new name is published once the catalogue knows it"
