"""An input that forgot what a rebuild needs: it is said, and the rest flows."""

from __future__ import annotations

import pytest
from kafka import KafkaAdminClient, TopicPartition

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.kafka.offsets import rebuild_from_metadata
from tests.chaos.conftest import MakeScenario
from tests.chaos.stream import messages

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_an_input_that_forgot_what_a_rebuild_needs_is_said_and_the_rest_flows(
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario
) -> None:
    it = scenario(kafka.bootstrap_servers, "retention has removed half of what the rebuild needs")
    sent = messages(steps=200, seed=17, late=0, bad=False)
    half = len(sent) // 2
    worker = it.worker()
    with it.streaming(sent[:half], rate_per_s=10_000):
        metadata = it.wait(all_of=half)
    it.stop(worker)
    ends = {number: len(part) for number, part in read_topic(it.settings, it.settings.input_topic).items()}
    admin = KafkaAdminClient(bootstrap_servers=it.settings.kafka)
    until = {number: (end + (rebuild_from_metadata(metadata.get(number)) or 0)) // 2 for number, end in ends.items()}
    admin.delete_records({TopicPartition(it.settings.input_topic, number): at for number, at in until.items()})
    admin.close()
    it.again(worker)
    with it.streaming(sent[half:], rate_per_s=10_000):
        it.wait(all_of=len(sent))
    it.stop()
    assert it.said("retention has kept only") == len([number for number, end in ends.items() if end])
    it.end(lossless=False)
