"""Exactly-once delivery under faults: a reader of committed records finds every row once."""

import os
import signal
import time

import pytest

from deploy.kafka import QUICK_START, ExternalKafka, LocalKafka
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import Scenario, is_up, wait_for
from tests.chaos.stream import messages

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

Kafka = LocalKafka | ExternalKafka


def end_without_duplicates(run: Scenario) -> None:
    counts = run.end(recompute=True).counts
    assert counts["identical_duplicates"] == 0
    assert counts["closed_by_clock_duplicates"] == 0
    assert counts["other_method_duplicates"] == 0


def test_a_worker_killed_repeatedly_publishes_every_row_once(kafka: Kafka, scenario: MakeScenario) -> None:
    run = scenario(
        kafka.bootstrap_servers, "exactly once: worker killed mid-batch, 5 times", delivery="exactly_once"
    )  # fmt: skip
    sent = messages(steps=200, seed=31)
    with run.streaming(sent, rate_per_s=700):
        worker = run.worker()
        for _ in range(5):
            run.wait(additional=len(sent) // 20)
            worker.kill()
            run.restart(worker)
        run.wait(total=len(sent))
    run.stop()
    end_without_duplicates(run)


def test_a_worker_paused_past_its_session_is_fenced(kafka: Kafka, scenario: MakeScenario) -> None:
    run = scenario(
        kafka.bootstrap_servers, "exactly once: worker paused past its session, beside another", delivery="exactly_once"
    )
    sent = messages(steps=200, seed=32)
    with run.streaming(sent, rate_per_s=500):
        paused, other = run.worker(0), run.worker(1)
        wait_for(lambda: is_up(paused) and is_up(other), "both workers to start", run.workers)
        run.wait(additional=len(sent) // 10)
        os.kill(paused.pid, signal.SIGSTOP)
        time.sleep(12)
        os.kill(paused.pid, signal.SIGCONT)
        run.wait(total=len(sent))
    run.stop()
    end_without_duplicates(run)


def test_a_broker_killed_and_restarted_costs_no_row_and_repeats_none(scenario: MakeScenario, tmp_path: object) -> None:
    with LocalKafka(jvm_options=QUICK_START) as broker:
        run = scenario(
            broker.bootstrap_servers, "exactly once: broker killed, restarted after 2 s", delivery="exactly_once"
        )  # fmt: skip
        sent = messages(steps=150, seed=33)
        run.worker()
        with run.streaming(sent):
            run.wait(additional=len(sent) // 4)
            broker.kill()
            time.sleep(2)
            broker.restart()
            run.wait(total=len(sent))
        run.stop()
        end_without_duplicates(run)
