"""Duplicated, late and unordered readings yield one row each, and the same rows after a restart."""

import pytest

from deploy.kafka import ExternalKafka, LocalKafka
from tests.chaos.conftest import MakeScenario
from tests.chaos.stream import messages

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_duplicates_and_disorder_yield_one_row_each_also_after_a_kill(
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario
) -> None:
    run = scenario(kafka.bootstrap_servers, "30 % of readings duplicated, 10 % late, all out of order; worker killed")
    sent = messages(steps=150, seed=16, duplicated=0.3, late=0.1, disorder_ms=90_000)
    worker = run.worker()
    with run.streaming(sent, rate_per_s=1200):
        run.wait(additional=len(sent) // 3)
        worker.kill()
        run.restart(worker)
        run.wait(total=len(sent))
    run.stop()
    run.end(recompute=True)
