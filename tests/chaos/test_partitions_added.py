"""Partitions that are added to the input while a worker runs are taken up, and the topic of the rows gets as many."""

import pytest
from kafka import KafkaAdminClient

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from tests.chaos.conftest import MakeScenario
from tests.chaos.stream import messages, send_steadily

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_partitions_added_to_the_input_are_taken_up(kafka: LocalKafka | ExternalKafka, scenario: MakeScenario) -> None:
    run = scenario(kafka.bootstrap_servers, "partitions are added to the input while a worker runs")
    sent = messages(steps=200, seed=31)
    half = len(sent) // 2
    worker = run.worker()
    with run.streaming(sent[:half], rate_per_s=10_000):
        run.wait(total=half)
    admin = KafkaAdminClient(bootstrap_servers=run.settings.kafka)
    admin.create_partitions({run.settings.input_topic: 7})
    admin.close()
    send_steadily(run.settings, sent[half:], rate_per_s=10_000)
    run.wait(total=len(sent))
    assert (worker.running, worker.starts) == (True, 1)
    run.stop()
    assert len(read_topic(run.settings, run.settings.output_topic)) == 7
    assert run.count_in_logs("7 partitions now") == 2, "of the rows' topic and of the outages'"
    run.end()
