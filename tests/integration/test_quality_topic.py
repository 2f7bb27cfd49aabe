"""The topic of live accuracy on a real broker: workers that are killed or join, tombstones, and transactions."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType

from deploy.cache import CHECKOUT
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics
from glaim_stream.output.quality.records import key_of
from glaim_stream.windows import STRETCH
from tests.constants import SCORE_LEAST
from tests.integration.worker_process import WorkerProcess, plant_settings, wait_until_committed

pytestmark = pytest.mark.timeout(600)

Kafka = LocalKafka | ExternalKafka
Sent = list[tuple[bytes, bytes]]
STEPS, GROUPS = 260, 5
START_MS = 1_767_225_600_000  # a whole number of stretches, in minutes
# Near the means of the shipped model's training.
LEVELS = {
    "flow": 180.0, "speed": 1450.0, "suction_pressure": 2.0, "discharge_pressure": 8.0, "motor_current": 90.0,
    "bearing_temperature": 55.0, "vibration": 2.5, "tank_level": 60.0,
}  # fmt: skip


def readings() -> Sent:
    """A record for each group and step; a twelfth of the readings never comes, and a few come four steps late."""
    random = np.random.default_rng(8)
    out: list[tuple[int, bytes, dict[str, Any]]] = []
    for step in range(STEPS):
        for group in (f"pump-{number}" for number in range(GROUPS)):
            common = float(np.sin(step / 15.0))
            values = {}
            for sensor, level in LEVELS.items():
                value = round(level * (1.0 + 0.02 * common + 0.002 * float(random.normal())), 2)
                drawn = random.random()
                if drawn < 0.03:
                    late = {"group": group, "sensor": sensor, "ts": START_MS + step * 60_000, "value": value}
                    out.append((step + 4, group.encode(), late))
                elif drawn > 0.08:
                    values[sensor] = value
            record = {"group": group, "ts": START_MS + step * 60_000, "values": values}
            out.append((step, group.encode(), record))
    return [(key, json.dumps(value).encode()) for _, key, value in sorted(out, key=lambda each: each[0])]


def settings_of(kafka: Kafka, prefix: str, **changes: object) -> Settings:
    settings = plant_settings(
        kafka.bootstrap_servers, prefix, imputer="local", quality_topic=prefix + "quality", **changes
    )
    ensure_topics(settings)
    return settings


def send(settings: Settings, sent: Sent) -> None:
    producer = KafkaProducer(bootstrap_servers=settings.kafka, enable_idempotence=True)
    for key, value in sent:
        producer.send(settings.input_topic, key=key, value=value)
    producer.flush()
    producer.close()


def read(settings: Settings) -> Iterator[Any]:
    """The committed messages of the topic, in the order of each partition."""
    consumer = KafkaConsumer(
        settings.quality_topic, bootstrap_servers=settings.kafka, auto_offset_reset="earliest",
        isolation_level="read_committed", consumer_timeout_ms=4000,
    )  # fmt: skip
    yield from consumer
    consumer.close()


def newest(messages: list[Any], source: str) -> dict[bytes, dict[str, Any]]:
    values = {message.key: message.value for message in messages}
    documents = {key: json.loads(value) for key, value in values.items() if value is not None}
    return {key: each for key, each in documents.items() if each["source"] == source}


def figures(document: dict[str, Any]) -> dict[str, Any]:
    """A document without the rounded figures; these are compared apart."""
    cells = [
        {
            **each,
            "methods": {name: method["count"] for name, method in each["methods"].items()},
            "width": 0,
            "coverage": 0,
        }
        for each in document["sensors"]
    ]
    return {**document, "sensors": cells, "regret": (document.get("regret") or {}).get("count")}


def assert_same(found: dict[bytes, dict[str, Any]], expected: dict[bytes, dict[str, Any]]) -> None:
    """The same keys, stretches and counts; errors and coverage but for what the last bits of a batch can do."""
    assert found.keys() == expected.keys()
    for key, document in found.items():
        assert figures(document) == figures(expected[key])
        for one, other in zip(document["sensors"], expected[key]["sensors"], strict=True):
            for method, figure in one["methods"].items():
                assert figure["mae"] == pytest.approx(other["methods"][method]["mae"], rel=1e-3, abs=1e-6)
            assert one["width"] == pytest.approx(other["width"], rel=1e-3)


@pytest.fixture(scope="module")
def uninterrupted(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Any]]:
    """By number of partitions: what a worker publishes that nothing happens to."""
    found = {}
    for partitions in (1, 2):
        prefix = f"quality-uninterrupted-{time.time_ns()}-"
        settings = settings_of(kafka, prefix, partitions=partitions)
        send(settings, readings())
        with WorkerProcess(
            settings, tmp_path_factory.mktemp("uninterrupted") / "worker.log", constants={SCORE_LEAST: 8}
        ):
            wait_until_committed(settings, deadline_s=120)
        found[partitions] = list(read(settings))
        assert found[partitions], "other tests compare with these, which would hold for none too"
    return found


@pytest.mark.slow  # quicker: tests/output/quality/test_records.py and test_kept.py
def test_a_worker_publishes_every_stretch_that_is_over(uninterrupted: dict[int, list[Any]]) -> None:
    hidden, late = (newest(uninterrupted[1], source) for source in ("hidden", "late"))
    per_group = Counter(each["group"] for each in hidden.values())
    assert per_group == {f"pump-{number}": STEPS // STRETCH for number in range(GROUPS)}
    assert len(late) == GROUPS * 3, "of the others a reading may still come"
    published = [each["methods"]["published"] for document in hidden.values() for each in document["sensors"]]
    assert sum(each["count"] for each in published) > 1000
    for message in uninterrupted[2]:
        assert json.loads(message.key)[0] == json.loads(message.value)["group"]


# Quicker: the test of partitions that move kills a worker that delivers at least once, too.
@pytest.mark.slow  # quicker: tests/output/quality/test_records.py and test_kept.py
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_after_kill_9_the_records_are_those_of_an_uninterrupted_worker(
    kafka: Kafka, topic_prefix: str, tmp_path: Path, uninterrupted: dict[int, list[Any]], delivery: str
) -> None:
    settings = settings_of(kafka, topic_prefix, partitions=1, delivery=delivery)
    sent = readings()
    with WorkerProcess(settings, tmp_path / "worker.log", constants={SCORE_LEAST: 8}) as worker:
        for first, end in ((0, 700), (700, 1_100)):
            send(settings, sent[first:end])
            wait_until_committed(settings, additional=50, at_most=end)  # all of it may be committed by now
            worker.kill()
            worker.start()
        send(settings, sent[1_100:])
        wait_until_committed(settings, deadline_s=120)
    messages = list(read(settings))
    assert_same(newest(messages, "hidden"), newest(uninterrupted[1], "hidden"))
    late, whole = newest(messages, "late"), newest(uninterrupted[1], "late")
    assert late.keys() <= whole.keys()
    assert_same(late, {key: whole[key] for key in late})
    if delivery == "exactly_once":
        times = Counter((message.key, json.loads(message.value)["from"]) for message in messages)
        assert set(times.values()) == {1}, "its transaction committed, or nobody saw it"


@pytest.mark.slow  # quicker: tests/output/quality/test_records.py
def test_partitions_that_move_to_another_worker_keep_their_records(
    kafka: Kafka, topic_prefix: str, tmp_path: Path, uninterrupted: dict[int, list[Any]]
) -> None:
    settings = settings_of(kafka, topic_prefix, partitions=2, kafka_extra={"session_timeout_ms": 6000})
    sent = readings()
    half = len(sent) // 2
    with WorkerProcess(settings, tmp_path / "first.log", constants={SCORE_LEAST: 8}) as first:
        send(settings, sent[:half])
        wait_until_committed(settings, deadline_s=120)
        with WorkerProcess(settings, tmp_path / "second.log", constants={SCORE_LEAST: 8}):
            send(settings, sent[half : half + 200])
            wait_until_committed(settings, deadline_s=120)
            first.kill()
            send(settings, sent[half + 200 :])
            wait_until_committed(settings, deadline_s=120)
    assert_same(newest(list(read(settings)), "hidden"), newest(uninterrupted[2], "hidden"))


@pytest.mark.slow  # quicker: tests/output/quality/test_records.py and test_kept.py
def test_what_should_be_gone_gets_a_tombstone_and_the_topic_is_compacted(
    kafka: Kafka, topic_prefix: str, tmp_path: Path
) -> None:
    settings = settings_of(kafka, topic_prefix, partitions=1)
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, settings.quality_topic)])
    admin.close()
    assert "compact" in str(found)
    gone, other = key_of("former-pump", "hidden", 3), key_of("pump-1", "late", 77)
    old = {"group": "pump-1", "model": "plant-pump", "source": "late", "to": "2025-01-01T00:00:00Z"}
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    left = {"group": "former-pump", "model": "plant-pump", "source": "hidden", "to": "2026-01-01T01:36:00Z"}
    for key, document in ((gone, left), (other, old)):
        producer.send(settings.quality_topic, key=key, value=json.dumps(document).encode(), partition=0)
    producer.flush()
    sent = readings()
    with WorkerProcess(settings, tmp_path / "worker.log", constants={SCORE_LEAST: 8}):
        send(settings, sent[:700])
        wait_until_committed(settings, deadline_s=120)
        send(settings, sent[700:])
        wait_until_committed(settings, deadline_s=120)
    values = {message.key: message.value for message in read(settings)}
    assert {key for key, value in values.items() if value is None} == {gone, other}
    assert len(values) > 20


def test_the_shipped_catalogue_is_what_these_tests_use() -> None:
    """The readings above are of its sensors."""
    text = (CHECKOUT / "deploy" / "catalogues" / "plant.yaml").read_text()
    assert all(f"id: {sensor}," in text for sensor in LEVELS)
