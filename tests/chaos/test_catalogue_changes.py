"""A sensor is added, removed or renamed while the stream runs: readings of unknown sensors become dead letters."""

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

SENSORS_BEFORE = "[{id: s0, min: -50, max: 50}, {id: s1}, {id: s2}]"


def renamed(sent: Sent, names: dict[str, str]) -> Sent:
    """The same readings with other sensor names."""
    out: Sent = []
    for key, value, headers in sent:
        document = json.loads(value or b"")
        document["sensor"] = names.get(document["sensor"], document["sensor"])
        out.append((key, json.dumps(document).encode(), headers))
    return out


def change_catalogue(run: Scenario, worker: WorkerProcess, sensors: str) -> None:
    """Stop the worker, change its catalogue and restart it, as an operator does."""
    run.stop(worker)
    assert SENSORS_BEFORE in CATALOGUE
    run.settings.catalogue.write_text(CATALOGUE.replace(SENSORS_BEFORE, sensors))
    run.restart(worker)


@pytest.mark.parametrize(
    ("change", "sensors", "names", "unknown_before", "unknown_after"),
    [
        ("added", SENSORS_BEFORE[:-1] + ", {id: s3}]", {"s2": "s3"}, "s3", ""),
        ("removed", "[{id: s0, min: -50, max: 50}, {id: s1}]", {}, "", "s2"),
        ("renamed", SENSORS_BEFORE.replace("s2", "t2"), {"s2": "t2"}, "t2", ""),
    ],
)
def test_readings_of_a_changed_sensor_are_dead_letters_until_the_catalogue_matches(
    change: str, sensors: str, names: dict[str, str], unknown_before: str, unknown_after: str,
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario,
) -> None:  # fmt: skip
    run = scenario(kafka.bootstrap_servers, f"sensor {change} mid-stream: catalogue changed, worker restarted")
    sent = messages(steps=120, seed=18, late=0, bad=False)
    third = len(sent) // 3
    parts = [sent[:third], renamed(sent[third : 2 * third], names), renamed(sent[2 * third :], names)]
    worker = run.worker()
    done = 0
    for part in parts[:2]:  # the second part arrives before the catalogue changes: devices change first
        done += len(part)
        with run.streaming(part, rate_per_s=10_000):
            run.wait(total=done)
    first_audit = run.audited()
    changed_at = {number: len(part) for number, part in read_topic(run.settings, run.settings.input_topic).items()}
    change_catalogue(run, worker, sensors)
    with run.streaming(parts[2], rate_per_s=10_000):
        run.wait(total=len(sent))
    run.stop()
    report = run.end(from_offset=changed_at)
    letters = Counter(
        json.loads(record.value)["sensor"]
        for part in read_topic(run.settings, run.settings.dlq_topic).values()
        for record in part
    )
    assert set(letters) == {name for name in (unknown_before, unknown_after) if name}
    assert first_audit.lost == report.lost == 0
    if change != "removed":
        new = {
            key for message in run.published() for key, row in message.items() if key[1] == unknown_before and row[1]
        }
        assert new, "the new name must be published once the catalogue contains it"
