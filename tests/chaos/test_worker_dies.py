"""Workers that are killed or stopped while idle, mid-batch, and between producing and committing."""

import asyncio
import re
import time

import pytest

from deploy.cache import CHECKOUT
from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.kafka import rebuild_from_metadata
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import wait_for
from tests.chaos.plant import every_column, plant_messages, steady_plant, uninterrupted
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
    extra = run.settings.kafka_extra
    worker = run.worker(
        kafka_extra=extra | {"auto_commit_interval_ms": 3_600_000}
    )  # only the first commit happens: later output stays uncommitted
    with run.streaming(sent, rate_per_s=2000):
        time.sleep(0)
    wait_for(lambda: sum(map(len, run.published())) > 100, "output", run.workers)
    settled = -1
    while (found := sum(map(len, run.published()))) != settled:  # until the output of all input is published
        settled = found
        time.sleep(1)
    worker.kill()
    run.restart(worker, kafka_extra=extra)
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


def test_a_worker_with_a_network_killed_repeatedly_publishes_every_column_as_before(
    kafka: Kafka, scenario: MakeScenario
) -> None:
    """With batches of a fixed size the network answers to the bit, so every column of every row must be the same."""
    pytest.importorskip("torch")
    run = scenario(
        kafka.bootstrap_servers,
        f"worker with a network killed mid-batch, {KILLS} times",
        model_repository=CHECKOUT / "model_repo",
        imputer="local",
        triton_batch=32,
        triton_fixed_batch=True,
        partitions=1,
        kafka_extra={"auto_commit_interval_ms": 2000},
    )
    run.settings.catalogue.write_text(steady_plant())
    sent = plant_messages(steps=1000, groups=6, seed=5)
    with run.streaming(sent, rate_per_s=1000):
        worker = run.worker()
        run.wait(total=len(sent) * 9 // 20)  # so that a rebuild leaves out the beginning of the topic
        for _ in range(KILLS):
            time.sleep(1)  # rows are published, and the commit that covers them comes a second later
            worker.kill()
            run.restart(worker)
            run.wait(additional=len(sent) // 20)
        run.wait(total=len(sent))
    run.stop()
    counts = run.end().counts
    assert (counts["identical_duplicates"] > 0) == (run.settings.delivery == "at_least_once"), "killed mid-batch"
    rebuilds = re.findall(r"windows rebuilt from \d+ records, offsets (\d+) to", worker.log.read_text())
    assert len(rebuilds) >= KILLS
    assert all(int(first) > 0 for first in rebuilds), "a rebuild must read a part of the topic, not all of it"

    (records,) = read_topic(run.settings, run.settings.input_topic).values()
    expected = asyncio.run(uninterrupted(run.settings, records))
    methods = {row["method"] for row in expected.values()}
    assert {"model", "gaussian", "blend"} <= methods, "the errors of the experts must matter"
    output = read_topic(run.settings, run.settings.output_topic)
    found = every_column(record.value for part in output.values() for record in part)
    assert found.keys() == expected.keys()
    different = [(row, found[key]) for key, row in expected.items() if found[key] != row]
    assert not different, f"{len(different)} of {len(found)} rows differ, the first: {different[:2]}"
