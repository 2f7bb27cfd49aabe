"""Accidental deletion of the consumer group's offsets, the input topic or the output topic, and the recovery."""

import asyncio
import subprocess
import sys
import time

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.structs import OffsetAndMetadata

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import wait_for
from tests.chaos.stream import messages, recomputed

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


def wait_until_empty(admin: KafkaAdminClient, group: str) -> None:
    """Wait until the group has no member: static members remain for their session timeout even after a clean stop."""
    wait_for(lambda: not admin.describe_groups([group])[group]["members"], "the group to be empty")


def test_the_same_rows_are_published_again_after_offsets_are_deleted(
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario
) -> None:
    run = scenario(kafka.bootstrap_servers, "consumer group's offsets deleted while the worker is down")
    sent = messages(steps=200, seed=21)
    half = len(sent) // 2
    worker = run.worker()
    with run.streaming(sent[:half], rate_per_s=10_000):
        run.wait(total=half)
    run.stop(worker)
    before = sum(map(len, run.published()))
    admin = KafkaAdminClient(bootstrap_servers=run.settings.kafka)
    wait_until_empty(admin, run.settings.consumer_group)
    admin.delete_groups([run.settings.consumer_group])
    admin.close()
    run.restart(worker)
    with run.streaming(sent[half:], rate_per_s=10_000):
        run.wait(total=len(sent))
    run.stop()
    report = run.end(recompute=True, offsets_moved_back=True)
    assert report.counts["identical_duplicates"] >= before, "all rows of the first half must be published again"


def test_windows_are_rebuilt_by_time_when_an_operator_set_the_offsets(
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario
) -> None:
    """`kafka-consumer-groups.sh --reset-offsets` writes commits without metadata, like these."""
    run = scenario(kafka.bootstrap_servers, "consumer group's offsets set back by an operator")
    sent = messages(steps=200, seed=22)
    half = len(sent) // 2
    worker = run.worker()
    with run.streaming(sent[:half], rate_per_s=10_000):
        run.wait(total=half)
    run.stop(worker)
    ends = {number: len(part) for number, part in read_topic(run.settings, run.settings.input_topic).items()}
    admin = KafkaAdminClient(bootstrap_servers=run.settings.kafka)
    wait_until_empty(admin, run.settings.consumer_group)
    back = {
        TopicPartition(run.settings.input_topic, number): OffsetAndMetadata(end * 3 // 4, "", -1)
        for number, end in ends.items()
    }
    admin.alter_group_offsets(run.settings.consumer_group, back)
    admin.close()
    run.restart(worker)
    with run.streaming(sent[half:], rate_per_s=10_000):
        run.wait(total=len(sent))
    run.stop()
    run.end(recompute=True, offsets_moved_back=True)


def delete_topic(settings: Settings, topic: str) -> None:
    """Delete a topic and wait until it is gone, because a topic of that name cannot be created before."""
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    admin.delete_topics([topic])
    wait_for(lambda: topic not in admin.list_topics(), f"{topic} to be gone")
    admin.close()
    time.sleep(1)  # the broker removes the files after it reports the deletion


def test_a_recreated_input_topic_is_read_from_its_start(
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario
) -> None:
    run = scenario(kafka.bootstrap_servers, "input topic deleted and recreated while the worker is down")
    sent = messages(steps=240, seed=23, late=0)
    half = len(sent) // 2
    worker = run.worker()
    with run.streaming(sent[:half], rate_per_s=10_000):
        run.wait(total=half)
    run.stop(worker)
    delete_topic(run.settings, run.settings.input_topic)
    run.sent = 0
    rows_before = {key: row for message in run.published() for key, row in message.items()}
    run.restart(worker)
    with run.streaming(sent[half:], rate_per_s=10_000):
        run.wait(total=len(sent) - half)
    run.stop()
    records = read_topic(run.settings, run.settings.input_topic)
    expected = asyncio.run(recomputed(run.settings, records))
    found = {key: row for message in run.published() for key, row in message.items() if key not in rows_before}
    assert found == {key: row for key, row in expected.items() if key not in rows_before}
    run.end(lossless=False)


def test_a_replay_restores_the_rows_of_a_deleted_output_topic(
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario
) -> None:
    run = scenario(kafka.bootstrap_servers, "output topic deleted, then replayed from the input")
    sent = messages(steps=120, seed=24)
    worker = run.worker()
    with run.streaming(sent, rate_per_s=10_000):
        run.wait(total=len(sent))
    run.stop(worker)
    lost = {key: row for message in run.published() for key, row in message.items()}
    delete_topic(run.settings, run.settings.output_topic)
    ensure_topics(run.settings)
    command = [sys.executable, "-m", "glaim_stream", "replay", "--kafka", run.settings.kafka]
    command += ["--input-topic", run.settings.input_topic, "--output-topic", run.settings.output_topic]
    command += ["--catalogue", str(run.settings.catalogue), "--model-repository", str(run.settings.model_repository)]
    done = subprocess.run([*command, "--imputer", "interpolation"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {key: row for message in run.published() for key, row in message.items()} == lost
    run.end(recompute=True)
