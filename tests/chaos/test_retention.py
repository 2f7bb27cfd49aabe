"""Retention has deleted records that a rebuild needs: the worker logs it and processes the rest."""

from __future__ import annotations

import pytest
from kafka import KafkaAdminClient, TopicPartition

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.kafka.offsets import rebuild_from_metadata
from tests.chaos.conftest import MakeScenario
from tests.chaos.stream import messages

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_a_rebuild_whose_input_retention_deleted_is_logged_and_the_rest_is_processed(
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario
) -> None:
    run = scenario(kafka.bootstrap_servers, "retention has deleted half of the records that the rebuild needs")
    sent = messages(steps=200, seed=17, late=0, bad=False)
    half = len(sent) // 2
    worker = run.worker()
    with run.streaming(sent[:half], rate_per_s=10_000):
        metadata = run.wait(total=half)
    run.stop(worker)
    ends = {number: len(part) for number, part in read_topic(run.settings, run.settings.input_topic).items()}
    admin = KafkaAdminClient(bootstrap_servers=run.settings.kafka)
    until = {number: (end + (rebuild_from_metadata(metadata.get(number)) or 0)) // 2 for number, end in ends.items()}
    admin.delete_records({TopicPartition(run.settings.input_topic, number): at for number, at in until.items()})
    admin.close()
    run.restart(worker)
    with run.streaming(sent[half:], rate_per_s=10_000):
        run.wait(total=len(sent))
    run.stop()
    assert run.count_in_logs("retention has kept only") == len([number for number, end in ends.items() if end])
    run.end(lossless=False)
