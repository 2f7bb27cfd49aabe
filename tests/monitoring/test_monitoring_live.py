"""The real Prometheus and Alertmanager beside the real worker and Triton: what they say of it, and of its loss."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from deploy import dashboard
from tests.monitoring.system import System, wait_until

# What the loss of Triton is to tell, and nothing else: by its own target, and by the workers' breaker.
OF_TRITON = {"GlaimTritonDown", "GlaimImputerUnavailable"}


def test_a_healthy_system_alarms_nobody_and_counts_right(system: System) -> None:
    assert system.firing() == set()
    (partitions,) = system.query("glaim_input_partitions")
    assert partitions["value"][1] == "2"
    assert len(system.query("glaim_consumer_lag_records")) == 2
    assert {sample["metric"]["model"] for sample in system.query("glaim_model_info")} == {"plant-pump"}


def test_triton_goes_and_the_right_alerts_fire_and_it_returns_and_they_resolve(system: System) -> None:
    with system.expecting(OF_TRITON):
        system.triton.kill()
        system.wait_for(OF_TRITON)
        system.triton.restart()
    assert system.firing() == set()


PANELS = [each for each in json.loads(dashboard.TARGET.read_text())["panels"] if each["type"] != "row"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_every_query_of_every_panel_has_data(panel: dict[str, Any], system: System) -> None:
    """After an outage of Triton, which a dashboard has to outlive."""
    for target in panel["targets"]:
        expression = re.sub(r"\$(namespace|release|sensor)\b", ".*", target["expr"])
        expression = expression.replace("$__rate_interval", "10s")
        wait_until(lambda: bool(system.query(expression)), 20, "data", lambda: expression)  # noqa: B023
