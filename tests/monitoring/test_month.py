"""A month of normal life with thirteen incidents: each alerts in time and with its severity, and nothing else pages."""

import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.month_plan import INCIDENTS, MINUTES, TICKETS, Incident
from tests.monitoring.month_plant import series
from tests.monitoring.rule_tests import write_test
from tests.monitoring.test_alerts import bare_rules, minute_of, promtool

__all__ = ["bare_rules", "promtool"]  # fixtures

SEED = 1
# Minutes between evaluations. Those of rules with ranges of hours and days read thousands of samples a series.
SHORT, LONG = 3, 10
_LONG_RANGE = re.compile(r"(?:increase|rate)\(glaim_[^\[]*\[(?:6h|1d|3d)\b")

Rules = list[dict[str, Any]]


@dataclass(frozen=True)
class Spell:
    """An alert from its first to its last firing evaluation."""

    alert: str
    severity: str
    first: int
    last: int
    every: int


def parts(groups: Rules) -> dict[int, Rules]:
    """The groups with the alerts of short and of long ranges and the records that these need, by their interval."""
    rules = [rule for group in groups for rule in group["rules"]]
    alerts = {rule["alert"] + rule["labels"].get("burn", ""): rule for rule in rules if "alert" in rule}
    needs = {name: _needed(rule, rules) for name, rule in alerts.items()}
    long = {name for name, found in needs.items() if any(_LONG_RANGE.search(rule["expr"]) for rule in found)}
    return {
        every: [
            {**group, "rules": kept}
            for group in groups
            if (kept := [rule for rule in group["rules"] if any(rule in needs[name] for name in names)])
        ]
        for every, names in ((SHORT, needs.keys() - long), (LONG, long))
    }


def _needed(alert: dict[str, Any], rules: Rules) -> Rules:
    """An alert and the records that it depends on."""
    found = [alert]
    for rule in found:
        for name in set(re.findall(r"glaim:[a-z_:0-9]+", rule["expr"])):
            slo = re.search(name + r'\{slo="(\w+)"\}', rule["expr"])
            found += [
                each
                for each in rules
                if each.get("record") == name and each not in found and (slo is None or each["labels"]["slo"] == slo[1])
            ]
    return found


@pytest.fixture(scope="module")
def firing(promtool: Path, bare_rules: Path) -> list[Spell]:
    """When each alert fired in the month."""
    inputs = [{"series": name, "values": values} for name, values in series(SEED).items()]
    found: list[Spell] = []
    running: dict[int, subprocess.Popen[str]] = {}
    for every, groups in parts(yaml.safe_load(bare_rules.read_text())["groups"]).items():
        rules = bare_rules.with_name(f"month-{every}.yaml")
        rules.write_text(yaml.safe_dump({"groups": groups}))
        asked = [
            {"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{minute}m", "exp_samples": []}
            for minute in range(0, MINUTES, every)
        ]
        test = {"interval": "1m", "input_series": inputs, "promql_expr_test": asked}
        file = write_test(rules, test, every)
        running[every] = subprocess.Popen(
            [promtool, "test", "rules", file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    try:
        for every, process in running.items():
            text, _ = process.communicate(timeout=890)
            found += spells(text, every)
    finally:
        for process in running.values():
            process.kill()
    return found


def spells(text: str, every: int) -> list[Spell]:
    """The alerts that promtool got at its evaluations."""
    minutes: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for time, block in re.findall(r"time: (\S+),(.*?)(?=expr: |\Z)", text, re.DOTALL):
        for labels in re.findall(r'\{__name__="ALERTS", ([^}]*)\}', block):
            found = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            name = found["alertname"] + (f":{found['burn']}" if "burn" in found else "")
            minutes[name, found["severity"], found.get("release", "")].add(minute_of(time))
    assert minutes, text[-2000:]
    return [
        Spell(name, severity, first, last, every)
        for (name, severity, _), each in minutes.items()
        for first, last in zip(
            sorted(minute for minute in each if minute - every not in each),
            sorted(minute for minute in each if minute + every not in each),
            strict=True,
        )
    ]


def allowed(spell: Spell) -> bool:
    """Whether an incident explains the spell, or a ticket of normal life."""
    for incident in INCIDENTS:
        lingers = {**incident.may, **{name: each.lingers for name, each in incident.must.items()}}
        if (
            spell.alert in lingers
            and incident.start <= spell.first <= spell.last <= incident.end + lingers[spell.alert]
        ):
            return True
    return spell.severity != "critical" and any(
        spell.alert == ticket.alert and ticket.start <= spell.first <= spell.last <= ticket.end for ticket in TICKETS
    )


@pytest.mark.slow  # quicker: the timelines of test_alert_timelines.py, an alert at a time
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("incident", "alert"),
    [(incident, alert) for incident in INCIDENTS for alert in incident.must],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_an_incident_alerts_in_time_until_it_is_mended(incident: Incident, alert: str, firing: list[Spell]) -> None:
    expected = incident.must[alert]
    found = [
        spell
        for spell in firing
        if spell.alert == alert and incident.start <= spell.first < incident.end + expected.lingers
    ]
    assert found, "never fires"
    first = found[0]
    assert {spell.severity for spell in found} == {expected.severity}
    assert first.first <= incident.start + expected.within + first.every, f"after {first.first - incident.start} min"
    assert first.last >= incident.end - first.every, f"goes quiet {incident.end - first.last} min before the end"


@pytest.mark.slow  # as above
@pytest.mark.timeout(900)
def test_nothing_pages_without_an_incident(firing: list[Spell]) -> None:
    assert [spell for spell in firing if spell.severity == "critical" and not allowed(spell)] == []


@pytest.mark.slow  # as above
@pytest.mark.timeout(900)
def test_normal_life_raises_the_listed_tickets_alone(firing: list[Spell]) -> None:
    assert [spell for spell in firing if spell.severity != "critical" and not allowed(spell)] == []
    for ticket in TICKETS:
        assert any(spell.alert == ticket.alert and ticket.start <= spell.first <= ticket.end for spell in firing), (
            f"{ticket.alert} does not fire, although {ticket.reason}"
        )


def test_incidents_do_not_overlap_and_lie_within_the_month() -> None:
    assert len(INCIDENTS) >= 10
    for before, after in pairwise(INCIDENTS):
        assert before.end < after.start
    assert INCIDENTS[-1].end < MINUTES
