"""Workers that join and leave under load: partitions move, windows are rebuilt, and no row is missing or different."""

from functools import partial

import pytest

from deploy.kafka import ExternalKafka, LocalKafka
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import wait_for
from tests.chaos.stream import messages
from tests.integration.worker_process import WorkerProcess

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

Kafka = LocalKafka | ExternalKafka
ASSIGNED = "partitions assigned: "


def joined(worker: WorkerProcess) -> bool:
    return ASSIGNED in worker.log.read_text()


def test_partitions_that_move_between_workers_lose_nothing(kafka: Kafka, scenario: MakeScenario) -> None:
    """One worker, then two, then one: the first leaves by SIGTERM, the second is killed and restarts with its name."""
    run = scenario(kafka.bootstrap_servers, "workers 1, 2, 1: one stopped by SIGTERM, the other killed and restarted")
    sent = messages(steps=200, seed=6)
    with run.streaming(sent, rate_per_s=700):
        first = run.worker(0)
        run.wait(additional=len(sent) // 20)
        second = run.worker(1)
        run.wait(additional=len(sent) // 10)
        run.stop(first)
        run.wait(additional=len(sent) // 10)
        second.kill()
        run.restart(second)
        run.wait(total=len(sent))
    run.stop(second)
    assert run.count_in_logs("windows rebuilt")
    run.end(recompute=True)


def test_scaling_from_one_worker_to_four_and_back_under_load_loses_nothing(
    kafka: Kafka, scenario: MakeScenario
) -> None:
    run = scenario(kafka.bootstrap_servers, "workers 1, 4, 1 under load, without instance ids")
    sent = messages(steps=300, seed=9)
    with run.streaming(sent, rate_per_s=600):
        run.worker(0, instance_id=None)
        run.wait(additional=len(sent) // 20)
        for number in (1, 2, 3):
            worker = run.worker(number, instance_id=None)
            wait_for(partial(joined, worker), "the worker to join", run.workers)  # slow on a busy machine
            run.wait(additional=len(sent) // 20)
        for worker in run.workers[1:]:
            run.wait(additional=len(sent) // 20)
            run.stop(worker)
        run.wait(total=len(sent))
    run.stop()
    assert all(ASSIGNED in worker.log.read_text() for worker in run.workers)
    run.end(recompute=True)


def test_a_named_worker_that_restarts_within_its_session_moves_no_partition(
    kafka: Kafka, scenario: MakeScenario
) -> None:
    run = scenario(
        kafka.bootstrap_servers,
        "named worker killed, restarted within its session timeout",
        kafka_extra={"session_timeout_ms": 45_000},
    )
    sent = messages(steps=200, seed=10)
    with run.streaming(sent, rate_per_s=700):
        first, second = run.worker(0), run.worker(1)
        for worker in (first, second):  # the worker that joins last causes another assignment of the first
            wait_for(partial(joined, worker), "both workers to join", run.workers)
        run.wait(additional=len(sent) // 10)
        before = first.log.read_text().count(ASSIGNED)
        second.kill()
        run.restart(second)
        run.wait(total=len(sent))
    assert first.log.read_text().count(ASSIGNED) == before, "the other worker must not be reassigned"
    run.stop()
    run.end(recompute=True)
