"""The real Prometheus and Alertmanager beside the real worker and Triton: what they say of it, and of its loss."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from deploy import dashboard
from deploy.errors import FetchError
from deploy.gotools import GoUnavailable
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.prometheus_install import PrometheusUnavailable, find_alertmanager, find_prometheus
from deploy.triton_install import unsupported_reason
from tests.monitoring.system import System, running_system, wait_until

# What the loss of Triton is to tell, and nothing else: by its own target, and by the workers' breaker.
OF_TRITON = {"GlaimTritonDown", "GlaimImputerUnavailable"}


@pytest.fixture(scope="module")
def system(kafka: LocalKafka | ExternalKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One running system for this file, fed until it has been scored and scraped for a while."""
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    try:
        find_prometheus()
        find_alertmanager()
    except (PrometheusUnavailable, GoUnavailable, FetchError) as reason:
        pytest.skip(str(reason))
    with running_system(kafka.bootstrap_servers, "monitoring-", tmp_path_factory.mktemp("monitoring")) as running:
        wait_until(
            lambda: bool(running.query('glaim:score_mae:ratio1h{method="blend"}')) and running.recorded_for_s() > 8,
            60, "live accuracy", lambda: running.query("sum(glaim_score_questions_total)"),
        )  # fmt: skip
        yield running


def test_a_healthy_system_alarms_nobody_and_counts_right(system: System) -> None:
    assert system.firing() == set()
    (partitions,) = system.query("glaim_input_partitions")
    assert partitions["value"][1] == "2"
    assert len(system.query("glaim_consumer_lag_records")) == 2
    assert {sample["metric"]["model"] for sample in system.query("glaim_model_info")} == {"plant-pump"}


def test_triton_goes_and_the_right_alerts_fire_and_it_returns_and_they_resolve(system: System) -> None:
    wait_until(lambda: system.firing() == set(), 30, "calm", system.firing)
    system.webhook.told.clear()
    system.triton.kill()
    wait_until(lambda: system.webhook.names("firing") >= OF_TRITON, 30, "the alerts", lambda: system.webhook.told)
    time.sleep(3)  # whoever else would fire for it
    assert system.webhook.names("firing") == OF_TRITON
    system.triton.restart()
    wait_until(lambda: system.webhook.names("resolved") >= OF_TRITON, 40, "the all-clear", lambda: system.webhook.told)
    assert system.firing() == set()
    assert system.webhook.names("firing") == OF_TRITON


PANELS = [each for each in json.loads(dashboard.TARGET.read_text())["panels"] if each["type"] != "row"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_every_query_of_every_panel_has_data(panel: dict[str, Any], system: System) -> None:
    """After an outage of Triton, which a dashboard has to outlive."""
    for target in panel["targets"]:
        expression = re.sub(r"\$(namespace|release|sensor)\b", ".*", target["expr"])
        expression = expression.replace("$__rate_interval", "10s")
        wait_until(lambda: bool(system.query(expression)), 20, "data", lambda: expression)  # noqa: B023
