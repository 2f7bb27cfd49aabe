"""The kept results of health and coverage: what each newest line must have, and hold."""

import json
import re
from typing import Any

import pytest

from deploy.cache import CHECKOUT
from glaim_stream.health.habits import RATE
from tests.benchmarks.test_health import FAULTS

Line = dict[str, Any]

DESCRIBED = {"date", "machine", "command", "git_commit", "python"}
OF_HEALTH = DESCRIBED | {
    "set", "fault", "live", "injections", "found", "delay_steps_p50", "one_event", "only_culprits_named", "rules_found",
    "rules_delay_steps_p50", "false_alarms_per_1000_sensor_days", "false_alarms_of_all_kinds",
    "rules_false_alarms_per_1000_sensor_days", "sensor_days",
}  # fmt: skip
OF_COVERAGE = DESCRIBED | {
    "stream", "cells", "cells_late", "with_interval", "coverage", "coverage_min_500", "coverage_max_500",
    "coverage_calm", "coverage_after_jump", "coverage_late", "coverage_by_age", "coverage_by_sensor", "cells_min_500",
    "width_p50", "width_p99", "fixed_coverage", "fixed_width_p50", "fixed_width_p99", "width_ratio",
    "width_ratio_stretched", "seconds",
}  # fmt: skip
SETS = ("plant", "ETTh1", "ETTm1", "weather", "beijing-air")  # in the order of the table's columns
STREAMS = ("level_shift", "growing_noise", "scale_change", "seasonal_drift", "sensor_drift", "regime_switching",
           "beijing")  # fmt: skip


def lines(name: str) -> list[Line]:
    return [json.loads(line) for line in (CHECKOUT / "benchmarks" / "results" / name).read_text().splitlines()]


def newest_of_health() -> dict[tuple[str, str, bool], Line]:
    """The newest line by set, fault and whether it is live; older ones were measured before there were live ones."""
    return {(each["set"], each["fault"], each["live"]): each for each in lines("health.jsonl") if "live" in each}


def newest_of_coverage() -> dict[tuple[str, bool], Line]:
    """The newest line by stream and whether the network took part."""
    return {(each["stream"], "--without-model" not in each["command"]): each for each in lines("coverage.jsonl")}


def test_the_newest_lines_of_health_are_whole() -> None:
    found = newest_of_health()
    assert found.keys() == {(name, fault, live) for name in SETS for fault in FAULTS for live in (False, True)}
    for key, line in found.items():
        assert line.keys() >= OF_HEALTH, key
        assert line["injections"] >= 20
        assert line["sensor_days"] > 0
        for share in ("found", "one_event", "only_culprits_named", "rules_found"):
            assert line[share] is None or 0 <= line[share] <= 1, (key, share)


@pytest.mark.parametrize("name", SETS)
def test_false_alarms_of_all_kinds_are_at_most_twice_the_stated_rate(name: str) -> None:
    rates = {key: line["false_alarms_of_all_kinds"] for key, line in newest_of_health().items() if key[0] == name}
    assert max(rates.values()) <= 2 * RATE, rates


@pytest.mark.parametrize(
    ("row", "fault", "figure", "live"),
    [
        ("false alarms in 1,000 sensor-days, stated 10", "drift", "false_alarms_of_all_kinds", False),
        ("false alarms, live", "drift", "false_alarms_of_all_kinds", True),
        ("drift: only the culprit named", "drift", "only_culprits_named", False),
        ("drift: only the culprit named, live", "drift", "only_culprits_named", True),
    ],
)
def test_the_table_has_the_figures_of_the_newest_lines(row: str, fault: str, figure: str, live: bool) -> None:
    page = (CHECKOUT / "benchmarks" / "README.md").read_text()
    (cells,) = re.findall(rf"^\| {re.escape(row)} \| (.*) \|$", page, re.MULTILINE)
    found = [newest_of_health()[name, fault, live][figure] for name in SETS]
    stated = [f"{each:.0%}".replace("%", " %") if "culprit" in row else f"{each:.1f}" for each in found]
    assert cells.split(" | ") == stated


def test_the_newest_lines_of_coverage_are_whole() -> None:
    found = newest_of_coverage()
    assert found.keys() == {(stream, network) for stream in STREAMS for network in (False, True)}
    for key, line in found.items():
        assert line.keys() >= OF_COVERAGE, key
        assert line["coverage_min_500"] <= line["coverage_max_500"], key
        assert line["with_interval"] > 0.99, key
        assert 0 < line["width_p50"] <= line["width_p99"] < float("inf"), key
        assert 0.85 <= line["coverage"] <= 0.95, key
