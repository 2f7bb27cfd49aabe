"""Partitions that are added to the input while a worker runs are taken up, and the topic of the rows gets as many."""

from __future__ import annotations

import pytest
from kafka import KafkaAdminClient

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from tests.chaos.conftest import MakeScenario
from tests.chaos.stream import messages, send_steadily

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_partitions_added_to_the_input_are_taken_up(kafka: LocalKafka | ExternalKafka, scenario: MakeScenario) -> None:
    it = scenario(kafka.bootstrap_servers, "partitions are added to the input while a worker runs")
    sent = messages(steps=200, seed=31)
    half = len(sent) // 2
    worker = it.worker()
    with it.streaming(sent[:half], rate_per_s=10_000):
        it.wait(all_of=half)
    admin = KafkaAdminClient(bootstrap_servers=it.settings.kafka)
    admin.create_partitions({it.settings.input_topic: 7})
    admin.close()
    send_steadily(it.settings, sent[half:], rate_per_s=10_000)
    it.wait(all_of=len(sent))
    assert (worker.running, worker.starts) == (True, 1)
    it.stop()
    assert len(read_topic(it.settings, it.settings.output_topic)) == 7
    assert it.said("7 partitions now") == 2, "of the rows' topic and of the outages'"
    it.end()
