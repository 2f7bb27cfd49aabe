"""SIGTERM while broker or Triton do not answer: the worker ends within its grace, and its successor does the rest."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.kafka import QUICK_START, ExternalKafka, LocalKafka
from deploy.runner import LocalServer
from deploy.triton import LocalTriton
from glaim_stream.feed import plant_source
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import wait_for
from tests.chaos.stream import messages
from tests.constants import STOP_GRACE
from tests.integration.worker_process import WorkerProcess

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

GRACE_S = 6.0
SLACK_S = 30.0  # the worker has ended long before in any case, but not for ever
LINGER_MS = 500  # while readings flow, some output always waits for its acknowledgement


@contextmanager
def paused(server: LocalServer) -> Iterator[None]:
    """SIGSTOP, as for a machine that hangs: connections stay open, and nothing answers."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@contextmanager
def killed(broker: LocalKafka) -> Iterator[None]:
    broker.kill()
    try:
        yield
    finally:
        broker.restart()


def ended(worker: WorkerProcess) -> tuple[int, float]:
    """SIGTERM; the exit status, and how long it took."""
    start_s = time.monotonic()
    status = worker.stop(GRACE_S + SLACK_S)
    return status, time.monotonic() - start_s


@pytest.mark.parametrize("gone", [killed, paused])
def test_a_worker_whose_broker_is_gone_ends_within_its_grace(
    gone: Callable[[LocalKafka], Iterator[None]], scenario: MakeScenario, tmp_path: Path
) -> None:
    with LocalKafka(tmp_path / "kafka", jvm_options=QUICK_START) as broker:
        run = scenario(
            broker.bootstrap_servers,
            f"worker stopped (SIGTERM) while the broker is {gone.__name__}",
            constants={STOP_GRACE: GRACE_S},
            kafka_extra={"linger_ms": LINGER_MS},
        )
        sent = messages(steps=150, seed=21)
        worker = run.worker()
        with run.streaming(sent, rate_per_s=2_000):
            run.wait(additional=len(sent) // 4)
            with gone(broker):
                time.sleep(2)  # what it has read is now waiting for acknowledgements
                status, seconds = ended(worker)
            assert status == 1
            assert GRACE_S <= seconds < GRACE_S + SLACK_S
            assert run.count_in_logs("did not stop in 6 s") == 1
            assert run.count_in_logs("Nothing is lost") == 1
            run.restart(worker)
            run.wait(total=len(sent))
        run.stop()
        run.end(recompute=True)


def test_a_second_sigterm_ends_it_at_once(scenario: MakeScenario, tmp_path: Path) -> None:
    with LocalKafka(tmp_path / "kafka", jvm_options=QUICK_START) as broker:
        run = scenario(
            broker.bootstrap_servers,
            "worker stopped twice while the broker is paused",
            constants={STOP_GRACE: 3600},
            kafka_extra={"linger_ms": LINGER_MS},
        )
        sent = messages(steps=150, seed=22)
        worker = run.worker()
        with run.streaming(sent, rate_per_s=2_000):
            run.wait(additional=len(sent) // 4)
            with paused(broker):
                time.sleep(1)
                os.kill(worker.pid, signal.SIGTERM)
                wait_for(lambda: run.count_in_logs("stopping: ") == 1, "the first signal to be seen", [worker])
                time.sleep(1)
                assert worker.running, "the grace is an hour"
                status, _ = ended(worker)
            assert status == 128 + signal.SIGTERM
            run.restart(worker)
            run.wait(total=len(sent))
        run.stop()
        run.end(recompute=True)


def test_a_worker_whose_triton_hangs_ends_in_order(
    kafka: LocalKafka | ExternalKafka, plant_scenario: MakeScenario, disposable_triton: LocalTriton
) -> None:
    """Longer than the deadline of a call, the grace suffices: interpolation fills what is in flight."""
    run = plant_scenario(
        kafka.bootstrap_servers,
        "worker stopped (SIGTERM) while Triton is paused",
        triton=disposable_triton.grpc_url,
        triton_deadline_s=2,
    )
    source = plant_source(groups=4, days=1 / 24, seed=3)
    worker = run.worker()
    with run.replaying(source):
        run.wait(additional=len(source) // 10)
        with paused(disposable_triton):
            run.stop(worker)
        run.restart(worker)
        run.wait(total=len(source))
    run.stop()
    run.end()
    assert run.count_in_logs("did not stop in") == 0


def test_a_triton_that_hangs_longer_than_the_grace_does_not_hold_a_worker(
    kafka: LocalKafka | ExternalKafka, plant_scenario: MakeScenario, disposable_triton: LocalTriton
) -> None:
    run = plant_scenario(
        kafka.bootstrap_servers,
        "worker stopped (SIGTERM) while Triton is paused and its deadline is an hour",
        triton=disposable_triton.grpc_url,
        triton_deadline_s=3600,
        constants={STOP_GRACE: GRACE_S},
    )
    source = plant_source(groups=4, days=3 / 24, seed=3)  # for 27 s, so that readings still arrive during the pause
    worker = run.worker()
    with run.replaying(source, speed=400):
        run.wait(additional=len(source) // 10)
        with paused(disposable_triton):
            time.sleep(2)
            status, seconds = ended(worker)
        assert status == 1
        assert GRACE_S <= seconds < GRACE_S + SLACK_S
        assert run.count_in_logs("Not answered: ") == 1
        run.restart(worker)
        run.wait(total=len(source))
    run.stop()
    run.end()
