"""Workers that come and go under load: partitions move, windows with them, and no row is missing or different."""

from __future__ import annotations

from functools import partial

import pytest

from deploy.kafka import ExternalKafka, LocalKafka
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import wait_for
from tests.chaos.stream import messages
from tests.integration.worker_process import WorkerProcess

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

Kafka = LocalKafka | ExternalKafka
ASSIGNED = "Executing _on_partitions_assigned"  # what Faust's log says of every assignment


def joined(worker: WorkerProcess) -> bool:
    return ASSIGNED in worker.log.read_text()


def test_partitions_that_move_between_workers_lose_nothing(kafka: Kafka, scenario: MakeScenario) -> None:
    """One worker, then two, then one again: the first leaves by SIGTERM, the second's name comes back after a kill."""
    it = scenario(kafka.bootstrap_servers, "workers 1, 2, 1: one leaves by SIGTERM, the other is killed and returns")
    sent = messages(steps=200, seed=6)
    with it.streaming(sent, rate_per_s=700):
        first = it.worker(0)
        it.wait(more=len(sent) // 20)
        second = it.worker(1)
        it.wait(more=len(sent) // 10)
        it.stop(first)
        it.wait(more=len(sent) // 10)
        second.kill()
        it.again(second)
        it.wait(all_of=len(sent))
    it.stop(second)
    assert it.said("windows rebuilt")
    it.end(recompute=True)


def test_one_worker_becomes_four_and_one_again_under_load(kafka: Kafka, scenario: MakeScenario) -> None:
    it = scenario(kafka.bootstrap_servers, "workers 1, 4, 1 under load, by name of nobody")
    sent = messages(steps=300, seed=9)
    with it.streaming(sent, rate_per_s=600):
        it.worker(0, instance_id=None)
        it.wait(more=len(sent) // 20)
        for number in (1, 2, 3):
            worker = it.worker(number, instance_id=None)
            wait_for(partial(joined, worker), "the worker to join", it.workers)  # on a busy machine it takes long
            it.wait(more=len(sent) // 20)
        for worker in it.workers[1:]:
            it.wait(more=len(sent) // 20)
            it.stop(worker)
        it.wait(all_of=len(sent))
    it.stop()
    assert all(ASSIGNED in worker.log.read_text() for worker in it.workers)
    it.end(recompute=True)


def test_a_worker_with_a_name_that_restarts_within_its_session_moves_no_partition(
    kafka: Kafka, scenario: MakeScenario
) -> None:
    it = scenario(kafka.bootstrap_servers, "a named worker killed, back within its session", session_timeout_s=45)
    sent = messages(steps=200, seed=10)
    with it.streaming(sent, rate_per_s=700):
        first, second = it.worker(0), it.worker(1)
        for worker in (first, second):  # either may be the later one, whose coming the other notices
            wait_for(partial(joined, worker), "both workers to join", it.workers)
        it.wait(more=len(sent) // 10)
        before = first.log.read_text().count(ASSIGNED)
        second.kill()
        it.again(second)
        it.wait(all_of=len(sent))
    assert first.log.read_text().count(ASSIGNED) == before, "the other worker has noticed nothing"
    it.stop()
    it.end(recompute=True)
