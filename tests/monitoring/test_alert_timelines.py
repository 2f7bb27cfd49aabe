"""Each alert fires in time, keeps firing for hours, and clears: timelines in promtool, minute by minute."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.monitoring.alert_timelines import TIMELINES, Timeline
from tests.monitoring.rule_tests import run_rules
from tests.monitoring.test_alerts import alerts_got, bare_rules, promtool
from tests.rules_file import alerts

__all__ = ["bare_rules", "promtool"]  # fixtures

LONG = 700  # minutes; longer timelines are evaluated every 5 minutes


@pytest.fixture(scope="module")
def firing(promtool: Path, bare_rules: Path) -> list[set[int]]:
    """For each timeline the minutes at which its alert fires."""
    return minutes_of(promtool, bare_rules, TIMELINES)


def every(each: Timeline) -> int:
    """Minutes between evaluations."""
    return 5 if each.minutes > LONG else 1


def minutes_of(promtool: Path, rules: Path, timelines: Sequence[Timeline]) -> list[set[int]]:
    """For each timeline the minutes at which its alert fires."""
    found: list[set[int]] = [set() for _ in timelines]
    for pace in (1, 5):
        # The long ones apart from the very long ones, because every rule is evaluated to the end of the longest.
        for least, most in ((0, LONG), (LONG, 3 * LONG), (3 * LONG, 100 * LONG)):
            numbers = [n for n, each in enumerate(timelines) if every(each) == pace and least < each.minutes <= most]
            if numbers:
                _run(promtool, rules, timelines, numbers, pace, found)
    return found


def _run(
    promtool: Path, rules: Path, timelines: Sequence[Timeline], numbers: Sequence[int], pace: int, found: list[set[int]]
) -> None:
    """One test of promtool that expects no alert and reports what it got: each timeline has a namespace of its own."""
    length = max(timelines[number].minutes for number in numbers)
    test = {
        "interval": "1m",
        "input_series": [
            {"series": name.replace('namespace="plant"', f'namespace="case-{number}"'), "values": values}
            for number in numbers
            for name, values in timelines[number].series.items()
        ],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": []}
            for alert in sorted({timelines[number].alert for number in numbers})
            for minute in range(0, length, pace)
        ],
    }
    text = run_rules(promtool, rules, test, pace)
    got = alerts_got(text)
    assert got or "SUCCESS" in text, text[-2000:]
    for name, minute, labels in got:
        number = int(labels["namespace"].removeprefix("case-"))
        each = timelines[number]
        if each.alert == name and each.burn == labels.get("burn", ""):
            found[number].add(minute)


def check_timeline(each: Timeline, minutes: set[int]) -> None:
    """Fail unless the alert fires in time, goes on until the end of the fault, and clears in time."""
    pace = every(each)
    assert minutes, "never fires"
    first, last = min(minutes), max(minutes)
    assert each.before <= first <= each.before + each.fires_within + pace, f"fires after {first - each.before} minutes"
    assert last <= each.mended + each.clears_within + pace, f"clears {last - each.mended} minutes after the end"
    assert set(range(-(-first // pace) * pace, each.mended, pace)) <= minutes, "goes quiet while the fault lasts"


@pytest.mark.slow  # quicker: the shorter cases of tests/monitoring/test_alerts.py
@pytest.mark.parametrize("number", range(len(TIMELINES)), ids=lambda n: f"{TIMELINES[n].alert} {TIMELINES[n].burn}")
def test_an_alert_fires_in_time_keeps_firing_and_clears(number: int, firing: list[set[int]]) -> None:
    check_timeline(TIMELINES[number], firing[number])


def test_every_alert_has_a_timeline_of_two_hours() -> None:
    timed = {(each.alert, each.burn) for each in TIMELINES if each.fault >= 120}
    assert timed == {(rule["alert"], rule["labels"].get("burn", "")) for rule in alerts()}
