"""Readings that come twice, late and in any order: one row each, and the same whoever reads them again."""

from __future__ import annotations

import pytest

from deploy.kafka import ExternalKafka, LocalKafka
from tests.chaos.conftest import MakeScenario
from tests.chaos.stream import messages

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_duplicates_and_disorder_make_no_second_row_also_over_a_kill(
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario
) -> None:
    it = scenario(kafka.bootstrap_servers, "30 % of readings twice, 10 % late, all in disorder; worker killed")
    sent = messages(steps=150, seed=16, twice=0.3, late=0.1, disorder_ms=90_000)
    worker = it.worker()
    with it.streaming(sent, rate_per_s=1200):
        it.wait(more=len(sent) // 3)
        worker.kill()
        it.again(worker)
        it.wait(all_of=len(sent))
    it.stop()
    it.end(recompute=True)
