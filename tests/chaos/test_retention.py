"""Retention deleted records that a rebuild needs, or that no worker read: the worker reports it and continues."""

import pytest
from kafka import KafkaAdminClient, TopicPartition

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import Loss, read_losses, rebuild_from_metadata
from glaim_stream.operate.audit import AuditRequest, audit
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import wait_for
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
    needed = {number: rebuild_from_metadata(end, metadata.get(number)) or 0 for number, end in ends.items()}
    until = {number: (end + needed[number]) // 2 for number, end in ends.items()}
    admin.delete_records({TopicPartition(run.settings.input_topic, number): at for number, at in until.items()})
    admin.close()
    run.restart(worker)
    with run.streaming(sent[half:], rate_per_s=10_000):
        run.wait(total=len(sent))
    run.stop()
    assert run.count_in_logs("retention has kept only") == len([number for number, end in ends.items() if end])
    run.end(lossless=False)


def test_readings_removed_before_they_were_read_are_reported_with_their_range(
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario
) -> None:
    run = scenario(kafka.bootstrap_servers, "retention removes readings that no worker has read")
    sent = messages(steps=90, seed=18, late=0, bad=False)
    third = len(sent) // 3
    worker = run.worker()
    with run.streaming(sent[:third], rate_per_s=10_000):
        run.wait(total=third)
    run.stop(worker)
    ends = {number: len(part) for number, part in read_topic(run.settings, run.settings.input_topic).items()}
    with run.streaming(sent[third : 2 * third], rate_per_s=10_000):
        pass
    grown = {number: len(part) for number, part in read_topic(run.settings, run.settings.input_topic).items()}
    admin = KafkaAdminClient(bootstrap_servers=run.settings.kafka)
    admin.delete_records({TopicPartition(run.settings.input_topic, number): end for number, end in grown.items()})
    admin.close()
    assert audit(run.settings).problems["lost_offsets"].count == third, "nothing has read it, and nothing can"
    run.restart(worker)
    lost = {(number, ends[number], end) for number, end in grown.items() if end > ends[number]}
    wait_for(lambda: len(events(run.settings)) >= len(lost), "the events of what was lost", [worker])
    with run.streaming(sent[2 * third :], rate_per_s=10_000):
        run.wait(total=len(sent))
    assert run.metric(worker, "glaim_lost_offsets_total") == third
    run.stop()
    found = events(run.settings)
    assert {(loss.partition, loss.first, loss.until) for loss in found} == lost
    assert len(found) == len(lost), "each range is one event"
    assert run.count_in_logs("were removed before they were read") == len(lost)
    report = audit(run.settings)
    assert (report.clean, report.problems["lost_offsets"].count) == (False, third)
    assert audit(run.settings, AuditRequest(from_offset=grown)).problems["lost_offsets"].count == 0


def events(settings: Settings) -> list[Loss]:
    """Losses on the outage topic."""
    records = read_topic(settings, settings.outage_topic).values()
    return read_losses(record.value for part in records for record in part)
