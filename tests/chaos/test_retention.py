"""An input that forgot what a rebuild needs, or what nobody has read: it is said, and the rest flows."""

from __future__ import annotations

import pytest
from kafka import KafkaAdminClient, TopicPartition

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.audit import audit
from glaim_stream.kafka.losses import Loss, read_losses
from glaim_stream.kafka.offsets import rebuild_from_metadata
from glaim_stream.settings import Settings
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import wait_for
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


def test_readings_that_vanish_unread_are_said_with_their_range(
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario
) -> None:
    it = scenario(kafka.bootstrap_servers, "retention removes readings that no worker has read")
    sent = messages(steps=90, seed=18, late=0, bad=False)
    third = len(sent) // 3
    worker = it.worker()
    with it.streaming(sent[:third], rate_per_s=10_000):
        it.wait(all_of=third)
    it.stop(worker)
    ends = {number: len(part) for number, part in read_topic(it.settings, it.settings.input_topic).items()}
    with it.streaming(sent[third : 2 * third], rate_per_s=10_000):
        pass
    grown = {number: len(part) for number, part in read_topic(it.settings, it.settings.input_topic).items()}
    admin = KafkaAdminClient(bootstrap_servers=it.settings.kafka)
    admin.delete_records({TopicPartition(it.settings.input_topic, number): end for number, end in grown.items()})
    admin.close()
    assert audit(it.settings).problems["lost_offsets"].count == third, "nothing has read it, and nothing can"
    it.again(worker)
    lost = {(number, ends[number], end) for number, end in grown.items() if end > ends[number]}
    wait_for(lambda: len(events(it.settings)) >= len(lost), "the events of what was lost", [worker])
    with it.streaming(sent[2 * third :], rate_per_s=10_000):
        it.wait(all_of=len(sent))
    assert it.measured(worker, "glaim_lost_offsets_total") == third
    it.stop()
    found = events(it.settings)
    assert {(loss.partition, loss.first, loss.until) for loss in found} == lost
    assert len(found) == len(lost), "each range is one event"
    assert it.said("were removed before they were read") == len(lost)
    report = audit(it.settings)
    assert (report.clean, report.problems["lost_offsets"].count) == (False, third)
    assert audit(it.settings, from_offset=grown).problems["lost_offsets"].count == 0


def events(settings: Settings) -> list[Loss]:
    """Losses on the outage topic."""
    records = read_topic(settings, settings.outage_topic).values()
    return read_losses(record.value for part in records for record in part)
