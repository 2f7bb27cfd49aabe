"""The dashboard and the rules use existing metrics, and the dashboard file is up to date."""

import json
import re
from itertools import combinations
from typing import Any

import pytest
import yaml

from deploy import dashboard
from deploy.cache import CHECKOUT
from tests.rules_file import alerts, all_rules

NAME = re.compile(r"(?<![\w\"'.-])(?:glaim|nv|kube|process|up|ALERTS)(?:[_:][\w:]+)?(?![\w\"'(-])")
PROMETHEUS_METRICS = {"up", "ALERTS"}


def panels() -> list[dict[str, Any]]:
    return [each for each in json.loads(dashboard.TARGET.read_text())["panels"] if each["type"] != "row"]


def known() -> set[str]:
    """The metrics in docs/metrics.md, the series of their histograms, and the recorded ones."""
    named = set(re.findall(r"`([\w:]+)`", (CHECKOUT / "docs" / "metrics.md").read_text()))
    of_histograms = {
        name + ending for name in named for ending in ("_bucket", "_sum", "_count") if name.endswith("_seconds")
    }
    return named | of_histograms | {rule["record"] for rule in all_rules() if "record" in rule} | PROMETHEUS_METRICS


def metrics_of(expression: str) -> set[str]:
    without_labels = re.sub(r"\b(?:by|on|ignoring|group_left|without) \([^)]*\)", "", expression)
    return set(NAME.findall(without_labels))


def test_the_dashboard_file_is_up_to_date() -> None:
    assert dashboard.TARGET.read_text() == dashboard.text(), "run python -m deploy.dashboard"


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_each_panel_has_a_description_and_queries_existing_metrics(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert panel["targets"]
    for target in panel["targets"]:
        assert metrics_of(target["expr"]), target["expr"]
        assert metrics_of(target["expr"]) <= known(), target["expr"]
        assert 'namespace=~"$namespace"' in target["expr"]
        assert 'release=~"$release"' in target["expr"]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.get("record") or rule["alert"])
def test_each_rule_queries_existing_metrics(rule: dict[str, Any]) -> None:
    assert metrics_of(rule["expr"])
    assert metrics_of(rule["expr"]) <= known(), rule["expr"]


def test_the_metrics_page_names_exactly_the_existing_alerts() -> None:
    named = set(re.findall(r"\bGlaim[A-Z]\w+", (CHECKOUT / "docs" / "metrics.md").read_text()))
    assert named == {rule["alert"] for rule in alerts()}


def test_a_misspelt_metric_is_detected() -> None:
    assert metrics_of('sum by (cause) (rate(glaim_ded_letters_total{job="x"}[5m])) / glaim:rows:share5m') == {
        "glaim_ded_letters_total",
        "glaim:rows:share5m",
    }
    assert "glaim_ded_letters_total" not in known()


def test_panels_do_not_overlap() -> None:
    whole = json.loads(dashboard.TARGET.read_text())["panels"]
    assert len({each["id"] for each in whole}) == len(whole)

    def disjoint(a: dict[str, int], b: dict[str, int]) -> bool:
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        return beside or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]

    places = [each["gridPos"] for each in whole]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    assert all(disjoint(a, b) for a, b in combinations(places, 2))


def test_grafana_reads_the_folder_that_compose_mounts() -> None:
    provisioning = CHECKOUT / "deploy" / "grafana" / "provisioning"
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "glaim-stream.yaml").read_text())["providers"]
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())["datasources"]
    services = yaml.safe_load((CHECKOUT / "deploy" / "compose.yaml").read_text())["services"]
    assert any(f":{provider['options']['path']}/" in volume for volume in services["grafana"]["volumes"])
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in services
