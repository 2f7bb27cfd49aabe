"""A running system with its monitoring, one per test file."""

import uuid
from collections.abc import Iterator

import pytest

from deploy.errors import FetchError
from deploy.gotools import GoUnavailable
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.prometheus_install import PrometheusUnavailable, find_alertmanager, find_prometheus
from deploy.triton_install import unsupported_reason
from tests.monitoring.system import System, running_system, wait_until


@pytest.fixture(scope="module")
def system(kafka: LocalKafka | ExternalKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A running system that has received probes and scrapes for some seconds."""
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    try:
        find_prometheus()
        find_alertmanager()
    except (PrometheusUnavailable, GoUnavailable, FetchError) as reason:
        pytest.skip(str(reason))
    with running_system(
        kafka.bootstrap_servers, f"monitoring-{uuid.uuid4().hex[:8]}-", tmp_path_factory.mktemp("monitoring")
    ) as running:
        wait_until(
            lambda: bool(running.query('glaim:score_mae:ratio1h{method="blend"}')) and running.recorded_for_s() > 8,
            60, "live accuracy", lambda: running.query("sum(glaim_score_questions_total)"),
        )  # fmt: skip
        yield running
