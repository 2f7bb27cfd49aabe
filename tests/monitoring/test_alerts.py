"""The alerting rules in promtool: each alert fires when it must and stays silent when it must."""

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.cache import CHECKOUT
from deploy.errors import FetchError
from deploy.gotools import GoUnavailable
from deploy.prometheus_install import PrometheusUnavailable, find_alertmanager, find_prometheus
from tests.monitoring.alert_cases import CASES, Case
from tests.monitoring.rule_tests import run_rules
from tests.rules_file import RULES, alerts, rules_file

RUNBOOK = CHECKOUT / "docs" / "runbook.md"


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Prometheus' tool; skips with the reason if it is not available."""
    try:
        return find_prometheus().tool
    except (PrometheusUnavailable, FetchError) as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def amtool() -> Path:
    """Alertmanager's tool; skips with the reason if it is not available."""
    try:
        return find_alertmanager().tool
    except (GoUnavailable, FetchError) as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def bare_rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rules without annotations, which promtool would require in every case."""
    rules = rules_file()
    for rule in (rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule):
        del rule["annotations"]
    file = tmp_path_factory.mktemp("rules") / "rules.yaml"
    file.write_text(yaml.safe_dump(rules))
    return file


@pytest.fixture(scope="session")
def fired(promtool: Path, bare_rules: Path) -> set[Case]:
    """The cases whose alert fired, identified by their namespace, which every alert carries.

    One run of promtool expects no alert in any case, and reports the alerts that it got instead.
    """
    numbered = dict(enumerate(CASES))
    long = {number for number, case in numbered.items() if int(case.at.removesuffix("m")) > 60}
    got = {
        *_fired(promtool, bare_rules, {number: numbered[number] for number in numbered.keys() - long}, 1),
        *_fired(promtool, bare_rules, {number: numbered[number] for number in long}, 5),  # these cases last hours
    }
    return {numbered[number] for number in got}


def _fired(promtool: Path, rules: Path, cases: dict[int, Case], minutes: int) -> set[int]:
    """One test with all series: each case has a namespace of its own, so the rules are evaluated once for all."""
    test = {
        "interval": "1m",
        "input_series": [
            {"series": name.replace('namespace="plant"', f'namespace="case-{number}"'), "values": values}
            for number, case in cases.items()
            for name, values in case.series.items()
        ],
        "alert_rule_test": [
            {"eval_time": at, "alertname": alert, "exp_alerts": []}
            for alert, at in sorted({(case.alert, case.at) for case in cases.values()})
        ],
    }
    text = run_rules(promtool, rules, test, minutes)
    got = alerts_got(text)
    assert got, text
    return {
        number
        for name, minute, labels in got
        for number in [int(labels["namespace"].removeprefix("case-"))]
        if cases[number].alert == name and int(cases[number].at.removesuffix("m")) == minute
    }


def alerts_got(text: str) -> list[tuple[str, int, dict[str, str]]]:
    """Name, minute and labels of each alert that promtool reports instead of none."""
    found = []
    for name, time, block in re.findall(r"alertname: (\w+), time: (\S+),(.*?)(?=alertname: |\Z)", text, re.DOTALL):
        for labels in re.findall(r"Labels:\{([^}]*)\}", block):
            found.append((name, minute_of(time), dict(re.findall(r'(\w+)="([^"]*)"', labels))))
    return found


def minute_of(time: str) -> int:
    """The minute of a time such as 1d2h3m, as promtool prints it."""
    parts = re.fullmatch(r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:0s)?", time)
    assert parts is not None, time
    weeks, days, hours, minutes = (int(part or 0) for part in parts.groups())
    return weeks * 10_080 + days * 1440 + hours * 60 + minutes


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}: {case.situation}")
def test_each_alert_fires_exactly_when_it_must(case: Case, fired: set[Case]) -> None:
    assert (case in fired) == case.fires


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    tried = Counter((case.alert, case.fires) for case in CASES)
    assert {name for name, _ in tried} == {rule["alert"] for rule in alerts()}
    assert all(tried[rule["alert"], fires] for rule in alerts() for fires in (True, False))


def test_promtool_accepts_rules_and_configuration(promtool: Path) -> None:
    done = subprocess.run([promtool, "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    configuration = CHECKOUT / "deploy" / "prometheus" / "prometheus.yml"
    done = subprocess.run(
        [promtool, "check", "config", "--syntax-only", str(configuration)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_amtool_accepts_the_configuration_of_alertmanager(amtool: Path) -> None:
    configuration = CHECKOUT / "deploy" / "prometheus" / "alertmanager.yml"
    done = subprocess.run([amtool, "check-config", str(configuration)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    names = {rule["alert"] for rule in alerts()}
    matchers = [
        matcher
        for rule in yaml.safe_load(configuration.read_text())["inhibit_rules"]
        for matcher in (*rule["source_matchers"], *rule["target_matchers"])
    ]
    named_alerts = {
        name
        for matcher in matchers
        if matcher.startswith("alertname")
        for name in matcher.split(" ", 2)[2].strip('"').split("|")
    }
    assert named_alerts
    assert named_alerts <= names


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_each_alert_has_a_severity_annotations_and_a_runbook_link(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"
    assert "{{" in rule["annotations"]["summary"], "a summary must name the object of the alert"
