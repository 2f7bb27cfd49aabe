"""Kafka itself is lost, and the stream continues on a second one that has a mirror of the input: docs/recovery.md."""

import time
from typing import Any

import pytest
from kafka import KafkaProducer

from deploy.demo.topic import read_topic
from deploy.kafka import QUICK_START, LocalKafka
from glaim_stream.kafka import ensure_topics
from tests.chaos.conftest import MakeScenario
from tests.chaos.stream import messages

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

DELAY = 40  # records of each partition that the mirror did not get


def mirror(records: dict[int, list[Any]], bootstrap_servers: str, topic: str) -> None:
    """Copy records as MirrorMaker does: partition, key, value, headers and time stay, offsets are new."""
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    for number, part in records.items():
        for record in part:
            producer.send(
                topic, record.value, key=record.key, headers=list(record.headers), partition=number,
                timestamp_ms=record.timestamp,
            )  # fmt: skip
    producer.flush()
    producer.close()


def test_a_second_kafka_with_a_mirror_of_the_input_continues(scenario: MakeScenario) -> None:
    sent = messages(steps=200, seed=31, late=0)
    half = len(sent) // 2
    with LocalKafka(jvm_options=QUICK_START) as first, LocalKafka(jvm_options=QUICK_START) as second:
        lost = scenario(first.bootstrap_servers, "Kafka lost: the first one, until it is gone")
        worker = lost.worker()
        with lost.streaming(sent[:half], rate_per_s=10_000):
            lost.wait(total=half)
        accepted = read_topic(lost.settings, lost.settings.input_topic)
        observed = {key: row for message in lost.published() for key, row in message.items() if row[1]}
        assert observed
        worker.kill()
        first.kill()

        start_s = time.monotonic()
        run = scenario(second.bootstrap_servers, "Kafka lost: the second one, with a mirror of the input")
        ensure_topics(run.settings)
        mirror(
            {number: part[:-DELAY] for number, part in accepted.items()}, run.settings.kafka, run.settings.input_topic
        )
        missing = [
            (record.key, record.value, list(record.headers)) for part in accepted.values() for record in part[-DELAY:]
        ]
        run.sent = half - len(missing)
        run.worker()
        with run.streaming(missing, rate_per_s=10_000):
            run.wait(total=half)
        run.extra["back_s"] = round(time.monotonic() - start_s, 1)
        with run.streaming(sent[half:], rate_per_s=10_000):
            run.wait(total=len(sent))
        run.stop()
        report = run.end(recompute=True)
        assert report.clean
        found = {key: row for message in run.published() for key, row in message.items()}
        assert {key: found.get(key) for key in observed} == observed
