"""Each alert fires in time, keeps firing for hours, and clears: timelines in promtool, minute by minute."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.monitoring.alert_timelines import BEFORE, FAULT, TIMELINES, Timeline
from tests.monitoring.test_alerts import alerts, alerts_got, bare_rules, promtool

__all__ = ["bare_rules", "promtool"]  # fixtures

# GlaimCertificateExpires compares with the day before; test_alerts has its cases.
LONGER = {"GlaimCertificateExpires"}
LONG = 700  # minutes; longer timelines are evaluated every 5 minutes


@pytest.fixture(scope="module")
def firing(promtool: Path, bare_rules: Path) -> dict[int, set[int]]:
    """Number of the timeline to the minutes at which its alert fires."""
    numbers = range(len(TIMELINES))
    long = [number for number in numbers if TIMELINES[number].minutes > LONG]
    return {
        **_firing(promtool, bare_rules, [number for number in numbers if number not in long], 1),
        **_firing(promtool, bare_rules, long, 5),
    }


def _firing(promtool: Path, rules: Path, numbers: Sequence[int], every: int) -> dict[int, set[int]]:
    """One test of promtool that expects no alert and reports what it got: each timeline has a namespace of its own."""
    length = max(TIMELINES[number].minutes for number in numbers)
    test = {
        "interval": "1m",
        "input_series": [
            {"series": name.replace('namespace="plant"', f'namespace="case-{number}"'), "values": values}
            for number in numbers
            for name, values in TIMELINES[number].series.items()
        ],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": []}
            for alert in sorted({TIMELINES[number].alert for number in numbers})
            for minute in range(0, length, every)
        ],
    }
    file = rules.with_name("timelines.yaml")
    file.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": f"{every}m", "tests": [test]}))
    done = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, timeout=170, check=False
    )
    text = done.stdout + done.stderr
    found: dict[int, set[int]] = {number: set() for number in numbers}
    for name, minute, labels in alerts_got(text):
        number = int(labels["namespace"].removeprefix("case-"))
        each = TIMELINES[number]
        if each.alert == name and each.burn in ("", labels.get("burn")):
            found[number].add(minute)
    assert any(found.values()), text[-2000:]
    return found


@pytest.mark.slow  # quicker: the shorter cases of tests/monitoring/test_alerts.py
@pytest.mark.parametrize("number", range(len(TIMELINES)), ids=lambda n: f"{TIMELINES[n].alert} {TIMELINES[n].burn}")
def test_an_alert_fires_in_time_keeps_firing_and_clears(number: int, firing: dict[int, set[int]]) -> None:
    each: Timeline = TIMELINES[number]
    every = 5 if each.minutes > LONG else 1
    minutes = firing[number]
    assert minutes, "never fires"
    first, last = min(minutes), max(minutes)
    assert BEFORE <= first <= BEFORE + each.fires_within + every, f"fires after {first - BEFORE} minutes"
    mended = BEFORE + FAULT
    assert last <= mended + each.clears_within + every, f"clears {last - mended} minutes after the end"
    assert set(range(-(-first // every) * every, mended, every)) <= minutes, "goes quiet while the fault lasts"


def test_every_alert_has_a_timeline() -> None:
    assert {each.alert for each in TIMELINES} | LONGER == {rule["alert"] for rule in alerts()}
