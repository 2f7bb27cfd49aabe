"""What an operator loses by accident: the group's offsets, the input topic, the output topic; and the way back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.structs import OffsetAndMetadata

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.kafka.topics import ensure_topics
from glaim_stream.settings import Settings
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import wait_for
from tests.chaos.stream import messages, recomputed

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


def left_empty(admin: KafkaAdminClient, group: str) -> None:
    """Wait until the group has no member: static ones stay for their session, also when they ended in order."""
    wait_for(lambda: not admin.describe_groups([group])[group]["members"], "the group to be empty")


def test_lost_offsets_publish_the_same_again(kafka: LocalKafka | ExternalKafka, scenario: MakeScenario) -> None:
    it = scenario(kafka.bootstrap_servers, "the consumer group's offsets are lost while the worker is away")
    sent = messages(steps=200, seed=21)
    half = len(sent) // 2
    worker = it.worker()
    with it.streaming(sent[:half], rate_per_s=10_000):
        it.wait(all_of=half)
    it.stop(worker)
    before = sum(map(len, it.published()))
    admin = KafkaAdminClient(bootstrap_servers=it.settings.kafka)
    left_empty(admin, it.settings.consumer_group)
    admin.delete_groups([it.settings.consumer_group])
    admin.close()
    it.again(worker)
    with it.streaming(sent[half:], rate_per_s=10_000):
        it.wait(all_of=len(sent))
    it.stop()
    report = it.end(recompute=True)
    assert report.counts["identical_duplicates"] >= before, "all of the first half comes again"


def test_offsets_set_by_an_operator_carry_no_metadata_and_windows_are_found_by_time(
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario
) -> None:
    """As `kafka-consumer-groups.sh --reset-offsets` does it."""
    it = scenario(kafka.bootstrap_servers, "an operator sets the consumer group's offsets back")
    sent = messages(steps=200, seed=22)
    half = len(sent) // 2
    worker = it.worker()
    with it.streaming(sent[:half], rate_per_s=10_000):
        it.wait(all_of=half)
    it.stop(worker)
    ends = {number: len(part) for number, part in read_topic(it.settings, it.settings.input_topic).items()}
    admin = KafkaAdminClient(bootstrap_servers=it.settings.kafka)
    left_empty(admin, it.settings.consumer_group)
    back = {
        TopicPartition(it.settings.input_topic, number): OffsetAndMetadata(end * 3 // 4, "", -1)
        for number, end in ends.items()
    }
    admin.alter_group_offsets(it.settings.consumer_group, back)
    admin.close()
    it.again(worker)
    with it.streaming(sent[half:], rate_per_s=10_000):
        it.wait(all_of=len(sent))
    it.stop()
    it.end(recompute=True)


def delete_topic(settings: Settings, topic: str) -> None:
    """Delete it and wait until it is gone: a topic of that name cannot be made before."""
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    admin.delete_topics([topic])
    wait_for(lambda: topic not in admin.list_topics(), f"{topic} to be gone")
    admin.close()
    time.sleep(1)  # the broker removes its files after it has said so


def test_a_lost_input_topic_begins_anew(kafka: LocalKafka | ExternalKafka, scenario: MakeScenario) -> None:
    it = scenario(kafka.bootstrap_servers, "the input topic is deleted and made anew while the worker is away")
    sent = messages(steps=240, seed=23, late=0)
    half = len(sent) // 2
    worker = it.worker()
    with it.streaming(sent[:half], rate_per_s=10_000):
        it.wait(all_of=half)
    it.stop(worker)
    delete_topic(it.settings, it.settings.input_topic)
    it.sent = 0
    rows_before = {key: row for message in it.published() for key, row in message.items()}
    it.again(worker)
    with it.streaming(sent[half:], rate_per_s=10_000):
        it.wait(all_of=len(sent) - half)
    it.stop()
    records = read_topic(it.settings, it.settings.input_topic)
    expected = asyncio.run(recomputed(it.settings, records))
    found = {key: row for message in it.published() for key, row in message.items() if key not in rows_before}
    assert found == {key: row for key, row in expected.items() if key not in rows_before}
    it.end(lossless=False)


def test_a_lost_output_topic_is_made_again_from_the_input(
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario
) -> None:
    it = scenario(kafka.bootstrap_servers, "the output topic is deleted, and replayed from the input")
    sent = messages(steps=120, seed=24)
    worker = it.worker()
    with it.streaming(sent, rate_per_s=10_000):
        it.wait(all_of=len(sent))
    it.stop(worker)
    lost = {key: row for message in it.published() for key, row in message.items()}
    delete_topic(it.settings, it.settings.output_topic)
    ensure_topics(it.settings)
    command = [sys.executable, "-m", "glaim_stream", "replay", "--kafka", it.settings.kafka]
    command += ["--input-topic", it.settings.input_topic, "--output-topic", it.settings.output_topic]
    command += ["--catalogue", str(it.settings.catalogue), "--model-repository", str(it.settings.model_repository)]
    done = subprocess.run([*command, "--imputer", "interpolation"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {key: row for message in it.published() for key, row in message.items()} == lost
    it.end(recompute=True)
