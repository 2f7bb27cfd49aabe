"""A real Prometheus and Alertmanager watch a real worker and Triton, before and after Triton is killed."""

import json
import re
from typing import Any

import pytest

from deploy import dashboard
from tests.monitoring.system import System, wait_until

pytestmark = pytest.mark.slow  # quicker: test_alerts.py and test_dashboard.py

# The alerts that the loss of Triton fires: one from its scrape target, one from the workers' breaker.
TRITON_ALERTS = {"GlaimTritonDown", "GlaimImputerUnavailable"}


def test_a_healthy_system_fires_no_alert_and_counts_right(system: System) -> None:
    assert system.firing() == set()
    (partitions,) = system.query("glaim_input_partitions")
    assert partitions["value"][1] == "2"
    assert len(system.query("glaim_consumer_lag_records")) == 2
    assert {sample["metric"]["model"] for sample in system.query("glaim_model_info")} == {"plant-pump"}
    wait_until(lambda: due_rows(system)["published"] > 400, 60, "rows that were due", lambda: due_rows(system))
    assert due_rows(system)["missing"] == 0
    assert [each["value"][1] for each in system.query("glaim_overdue_rows")] == ["0", "0"]
    assert system.query("glaim_model_held_timestamp_seconds") == []


def due_rows(system: System) -> dict[str, float]:
    """The rows that were due so far, by what became of them."""
    return {each["metric"]["outcome"]: float(each["value"][1]) for each in system.query("glaim_due_rows_total")}


def test_the_right_alerts_fire_when_triton_dies_and_resolve_when_it_returns(system: System) -> None:
    with system.expecting(TRITON_ALERTS):
        system.triton.kill()
        system.wait_for(TRITON_ALERTS)
        system.triton.restart()
    assert system.firing() == set()


# One version without a closed form: test_page_panels_live.py and tests/integration/test_shadow_scores.py have others.
ELSEWHERE = ("Closed forms", "Error of a version over another's", "Mean absolute error of two versions")
PANELS = [
    each
    for each in json.loads(dashboard.TARGET.read_text())["panels"]
    if each["type"] != "row" and each["title"] not in ELSEWHERE
]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_every_query_of_every_panel_has_data(panel: dict[str, Any], system: System) -> None:
    """Runs after an outage of Triton, which must not leave panels without data."""
    for target in panel["targets"]:
        expression = re.sub(r"\$(namespace|release|sensor)\b", ".*", target["expr"])
        expression = expression.replace("$__rate_interval", "10s")
        wait_until(lambda: bool(system.query(expression)), 20, "data", lambda: expression)  # noqa: B023
