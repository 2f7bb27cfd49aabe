"""Workers that are killed or stopped while idle, mid-batch, and between producing and committing."""

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


def test_a_worker_killed_repeatedly_mid_batch_loses_nothing(kafka: Kafka, scenario: MakeScenario) -> None:
    run = scenario(kafka.bootstrap_servers, f"worker killed mid-batch, {KILLS} times")
    sent = messages(steps=200, seed=5)
    with run.streaming(sent, rate_per_s=700):
        worker = run.worker()
        for _ in range(KILLS):
            run.wait(additional=len(sent) // 20)
            worker.kill()
            run.restart(worker)
        metadata = run.wait(total=len(sent))
    run.stop()
    assert run.count_in_logs("windows rebuilt") >= KILLS
    run.end(recompute=True)
    records = read_topic(run.settings, run.settings.input_topic)
    for partition, text in metadata.items():
        rebuild_from = rebuild_from_metadata(len(records[partition]), text)
        assert rebuild_from is not None
        assert 0 < rebuild_from < len(records[partition]), "the rebuild must read a part of the topic, not all of it"
    assert {letter["glaim-cause"] for letter in run.dead_letters()} == {b"out-of-limits"}
    assert all(letter["glaim-positions"] == b"[0]" for letter in run.dead_letters())


def test_a_worker_killed_while_idle_publishes_nothing_twice(kafka: Kafka, scenario: MakeScenario) -> None:
    run = scenario(kafka.bootstrap_servers, "worker killed while idle")
    sent = messages(steps=100, seed=6)
    half = len(sent) // 2
    worker = run.worker()
    with run.streaming(sent[:half], rate_per_s=10_000):
        run.wait(total=half)
    worker.kill()
    run.restart(worker)
    with run.streaming(sent[half:], rate_per_s=10_000):
        run.wait(total=len(sent))
    run.stop()
    assert run.end(recompute=True).counts["identical_duplicates"] == 0


@pytest.mark.short
def test_a_worker_killed_between_producing_and_committing_publishes_identical_rows_again(
    kafka: Kafka, scenario: MakeScenario
) -> None:
    run = scenario(kafka.bootstrap_servers, "worker killed between produce and commit", partitions=1)
    sent = messages(steps=100, seed=7)
    worker = run.worker(commit_interval_s=3600)  # only the first commit happens: later output stays uncommitted
    with run.streaming(sent, rate_per_s=2000):
        time.sleep(0)
    wait_for(lambda: sum(map(len, run.published())) > 100, "output", run.workers)
    settled = -1
    while (found := sum(map(len, run.published()))) != settled:  # until the output of all input is published
        settled = found
        time.sleep(1)
    worker.kill()
    run.restart(worker, commit_interval_s=0.2)
    run.wait(total=len(sent))
    run.stop()
    repeated = run.end(recompute=True).counts["identical_duplicates"]
    if run.settings.delivery == "exactly_once":
        assert repeated == 0, "output and offset commit together"
    else:
        assert repeated >= settled // 2


def test_a_worker_stopped_under_load_publishes_nothing_twice(kafka: Kafka, scenario: MakeScenario) -> None:
    run = scenario(kafka.bootstrap_servers, "worker stopped (SIGTERM) under load, twice")
    sent = messages(steps=200, seed=8)
    with run.streaming(sent, rate_per_s=900):
        worker = run.worker()
        for _ in range(2):
            run.wait(additional=len(sent) // 10)
            run.stop(worker)
            run.restart(worker)
        run.wait(total=len(sent))
    run.stop()
    assert run.end(recompute=True).counts["identical_duplicates"] == 0
