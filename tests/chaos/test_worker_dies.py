"""Workers that are killed or told to end, at every moment that matters."""

from __future__ import annotations

import time

import pytest

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.kafka.offsets import rebuild_from_metadata
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import wait_for
from tests.chaos.stream import messages

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

Kafka = LocalKafka | ExternalKafka
KILLS = 3


def test_a_worker_killed_again_and_again_mid_batch_loses_nothing(kafka: Kafka, scenario: MakeScenario) -> None:
    it = scenario(kafka.bootstrap_servers, f"worker killed mid-batch, {KILLS} times")
    sent = messages(steps=200, seed=5)
    with it.streaming(sent, rate_per_s=700):
        worker = it.worker()
        for _ in range(KILLS):
            it.wait(more=len(sent) // 20)
            worker.kill()
            it.again(worker)
        metadata = it.wait(all_of=len(sent))
    it.stop()
    assert it.said("windows rebuilt") >= KILLS
    it.end(recompute=True)
    records = read_topic(it.settings, it.settings.input_topic)
    for partition, text in metadata.items():
        rebuild_from = rebuild_from_metadata(text)
        assert rebuild_from is not None
        assert 0 < rebuild_from < len(records[partition]), "the rebuild is bounded, not the whole topic"
    assert {letter["glaim-cause"] for letter in it.letters()} == {b"out-of-limits"}
    assert all(letter["glaim-positions"] == b"[0]" for letter in it.letters())


def test_a_worker_killed_while_idle_publishes_nothing_twice(kafka: Kafka, scenario: MakeScenario) -> None:
    it = scenario(kafka.bootstrap_servers, "worker killed while idle")
    sent = messages(steps=100, seed=6)
    half = len(sent) // 2
    worker = it.worker()
    with it.streaming(sent[:half], rate_per_s=10_000):
        it.wait(all_of=half)
    worker.kill()
    it.again(worker)
    with it.streaming(sent[half:], rate_per_s=10_000):
        it.wait(all_of=len(sent))
    it.stop()
    assert it.end(recompute=True).counts["identical_duplicates"] == 0


@pytest.mark.short
def test_a_worker_killed_between_producing_and_committing_publishes_the_same_again(
    kafka: Kafka, scenario: MakeScenario
) -> None:
    it = scenario(kafka.bootstrap_servers, "worker killed between produce and commit", partitions=1)
    sent = messages(steps=100, seed=7)
    worker = it.worker(commit_interval_s=3600)  # what it publishes from the first commit on stays uncommitted
    with it.streaming(sent, rate_per_s=2000):
        time.sleep(0)
    wait_for(lambda: sum(map(len, it.published())) > 100, "output", it.workers)
    settled = -1
    while (found := sum(map(len, it.published()))) != settled:  # everything that it was given is out
        settled = found
        time.sleep(1)
    worker.kill()
    it.again(worker, commit_interval_s=0.2)
    it.wait(all_of=len(sent))
    it.stop()
    report = it.end(recompute=True)
    assert report.counts["identical_duplicates"] >= settled // 2


def test_a_worker_that_is_told_to_end_under_load_publishes_nothing_twice(kafka: Kafka, scenario: MakeScenario) -> None:
    it = scenario(kafka.bootstrap_servers, "worker stopped (SIGTERM) under load, twice")
    sent = messages(steps=200, seed=8)
    with it.streaming(sent, rate_per_s=900):
        worker = it.worker()
        for _ in range(2):
            it.wait(more=len(sent) // 10)
            it.stop(worker)
            it.again(worker)
        it.wait(all_of=len(sent))
    it.stop()
    assert it.end(recompute=True).counts["identical_duplicates"] == 0
