"""Rules that use `rate` or `increase` while counters begin again: no fault is hidden, and a restart alone is none.

Each timeline with counters runs three times more: with a worker that restarts every three minutes, with a pod that
vanishes and is replaced by another one, and with the restarts alone. Every recorded rate is compared with the one of
workers that go on.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.monitoring.alert_cases import TRITON, W0
from tests.monitoring.alert_timelines import TIMELINES, Timeline, timeline
from tests.monitoring.notation import Value, compress, expand
from tests.monitoring.rule_tests import run_rules
from tests.monitoring.test_alert_timelines import check_timeline, minutes_of
from tests.monitoring.test_alerts import bare_rules, promtool
from tests.rules_file import all_rules

__all__ = ["bare_rules", "promtool"]  # fixtures

LIFE = 3  # minutes between restarts
RESETS = re.compile(r"\b(?:rate|increase)\(")
COUNTER = re.compile(r"\w+_total\{|\w+_bucket\{|nv_inference_\w+\{")


def key(rule: dict[str, Any]) -> tuple[str, str]:
    """Name of a rule, with its objective or the range of its burn rate."""
    labels = rule.get("labels", {})
    return rule.get("alert") or rule["record"], labels.get("slo") or labels.get("burn", "")


def depends_on_counters(rule: dict[str, Any]) -> bool:
    """Whether the rule, or a record that it is made of, uses `rate` or `increase`."""
    names = set(re.findall(r"glaim:[a-z_:0-9]+", rule["expr"]))
    slo = re.search(r'slo="(\w+)"', rule["expr"])
    return bool(RESETS.search(rule["expr"])) or any(
        depends_on_counters(each)
        for each in all_rules()
        if each.get("record") in names
        and each is not rule
        and each.get("record") != rule.get("record")
        and (slo is None or each.get("labels", {}).get("slo") in (None, slo[1]))
    )


# --- counters that begin again


def numbers(values: list[Value]) -> list[float]:
    """A counter without gaps."""
    found = [value for value in values if isinstance(value, int | float)]
    assert len(found) == len(values)
    return found


def restarting(values: list[float], start: int, end: int) -> list[Value]:
    """The counter of processes that live for LIFE minutes each from `start` to `end`, scraped half a minute after."""
    out: list[Value] = list(values[:start])
    for minute in range(start, end):
        life = minute - (minute - start) % LIFE
        out.append((values[minute] + values[minute + 1]) / 2 - values[life])
    last = values[end - 1 - (end - 1 - start) % LIFE]
    return out + [value - last for value in values[end:]]


def moved(name: str, values: list[float], at: int) -> dict[str, str]:
    """The counter of a pod that vanishes, and of the one that takes over, whose series is born above 0."""
    before: list[Value] = [*values[:at], "stale"]
    after: list[Value] = [None] * at + [value - values[at - 1] for value in values[at:]]
    other = re.sub(r'instance="(\w)\d"', r'instance="\g<1>9"', name)
    assert other != name
    return {name: compress(before), other: compress(after)}


def length(each: Timeline) -> int:
    return each.minutes + 20


def with_restarts(each: Timeline) -> Timeline:
    """The fault with a worker, or a Triton, that restarts every three minutes as long as it lasts."""
    series = {
        name: compress(restarting(numbers(expand(values)[: length(each)]), each.before, each.mended))
        if COUNTER.match(name)
        else values
        for name, values in each.series.items()
    }
    # What is counted between the last scrape and a restart is lost, half a minute of three here. Of the counts of the
    # fault, which a long range weighs against healthy hours before it, a sixth is missing.
    return replace(each, series={**series, **started_often(each)}, fires_within=each.fires_within * 6 // 5)


def started_often(each: Timeline) -> dict[str, str]:
    """When the process of a worker started, of which there is a new one every three minutes of the fault."""
    starts: list[Value] = [
        0 if minute < each.before else 60 * (min(minute, each.mended - 1) // LIFE * LIFE)
        for minute in range(length(each))
    ]
    return {f"process_start_time_seconds{{{W0}}}": compress(starts)}


def with_a_move(each: Timeline) -> Timeline:
    """The fault with a pod that vanishes when three quarters of it have passed."""
    series = {}
    for name, values in each.series.items():
        if COUNTER.match(name):
            series |= moved(name, numbers(expand(values)[: length(each)]), each.before + each.fault * 3 // 4)
        else:
            series[name] = values
    return replace(each, series=series)


def restarts_alone(each: Timeline) -> Timeline:
    """Restarts every three minutes, and no fault: counters go on as they began, gauges stay."""
    calm = {}
    for name, text in each.series.items():
        values = expand(text)[: length(each)]
        pace = 0.0
        if COUNTER.match(name) or "timestamp" in name:
            first, second = numbers(values[:2])
            pace = second - first
        assert isinstance(values[0], int | float)
        calm[name] = compress([values[0] + pace * minute for minute in range(length(each))])
    return with_restarts(replace(each, series=calm))


WITH_COUNTERS = [
    each
    for each in TIMELINES
    if any(
        depends_on_counters(rule)
        for rule in all_rules()
        if rule.get("alert") == each.alert and rule["labels"].get("burn", "") == each.burn
    )
]

# What each process counts once, before its first scrape: the series is born at 1 and has no increase.
BORN_AT_ONE = {
    "GlaimWorkerFaults": "glaim_worker_faults_total",
    "GlaimRetentionShort": "glaim_retention_shortfalls_total",
    "GlaimInputLost": "glaim_lost_offsets_total",
    "GlaimDeadLetterSeen": "glaim_dead_letters_total__undecodable",
}


def born_at_one(alert: str) -> Timeline:
    """The first count of a new series, and a crash loop in which each process counts one."""
    each = timeline(alert, 2, 62, **{BORN_AT_ONE[alert]: lambda before, fault: f"_x{before} 1x{fault - 1} stale"})
    return replace(each, series={**each.series, **started_often(each)})


VARIANTS: dict[str, Callable[[Timeline], Timeline]] = {
    "restarts every 3 minutes": with_restarts,
    "a pod vanishes": with_a_move,
    "restarts alone": restarts_alone,
}
CASES = [
    *((name, make(each)) for each, (name, make) in product(WITH_COUNTERS, VARIANTS.items())),
    *(("born at 1", born_at_one(alert)) for alert in BORN_AT_ONE),
]


@pytest.fixture(scope="module")
def firing(promtool: Path, bare_rules: Path) -> list[set[int]]:
    """For each case the minutes at which its alert fires."""
    return minutes_of(promtool, bare_rules, [each for _, each in CASES])


@pytest.mark.slow  # quicker: the single resets among the cases of test_alerts.py
@pytest.mark.parametrize(
    "number", range(len(CASES)), ids=lambda n: f"{CASES[n][1].alert} {CASES[n][1].burn} {CASES[n][0]}"
)
def test_an_alert_does_not_depend_on_restarts(number: int, firing: list[set[int]]) -> None:
    name, each = CASES[number]
    if name == "restarts alone":
        assert firing[number] == set(), "fires without a fault"
    else:
        check_timeline(each, firing[number])


def test_every_alert_that_depends_on_a_counter_has_a_reset_case() -> None:
    needed = {key(rule) for rule in all_rules() if "alert" in rule and depends_on_counters(rule)}
    assert needed == {(each.alert, each.burn) for name, each in CASES if name == "restarts every 3 minutes"}
    assert len(needed) > 20


# --- recorded rates

OUTCOMES = {"late": 40, "in_time": 100, "published": 990, "missing": 10}
METHODS = {"observed": 900, "interpolation": 30, "last_value": 20, "blend": 50, "model": 50}
LENGTH = 600  # minutes, so that six hours of the objectives lie within


def counters() -> Iterator[tuple[str, float]]:
    """A series of every counter that a record uses, and its growth in a minute."""
    scored = f'{W0},model="pump",sensor="flow",position="edge"'
    yield f"glaim_readings_total{{{W0}}}", 1000
    yield f"glaim_records_total{{{W0}}}", 1000
    for outcome in ("published", "missing"):
        yield f'glaim_due_rows_total{{{W0},outcome="{outcome}"}}', OUTCOMES[outcome]
    for method in ("observed", "interpolation", "last_value", "blend", "model"):
        yield f'glaim_rows_total{{{W0},method="{method}"}}', METHODS[method]
    for outcome in ("late", "in_time"):
        yield f'glaim_timed_rows_total{{{W0},outcome="{outcome}"}}', OUTCOMES[outcome]
    for bound, below in (("1.0", 30), ("5.0", 80), ("+Inf", 100)):
        yield f'glaim_output_latency_seconds_bucket{{{W0},le="{bound}"}}', below
    for method, error in (("model", 8), ("baseline", 12)):
        yield f'glaim_score_questions_total{{{scored},method="{method}"}}', 10
        yield f'glaim_score_error_total{{{scored},method="{method}"}}', error
    yield f'glaim_score_intervals_total{{{W0},model="pump",position="edge"}}', 10
    yield f'glaim_score_intervals_holding_total{{{W0},model="pump",position="edge"}}', 9
    yield f'nv_inference_queue_duration_us{{{TRITON},model="pump",version="1"}}', 120_000
    yield f'nv_inference_request_success{{{TRITON},model="pump",version="1"}}', 60


RECORDED = [rule for rule in all_rules() if "record" in rule and RESETS.search(rule["expr"])]


@pytest.fixture(scope="module")
def recorded(promtool: Path, bare_rules: Path) -> dict[tuple[str, str, str, str], float]:
    """Name, objective, method and namespace of every recorded series to its largest value of the last five minutes."""
    inputs = []
    for name, growth in counters():
        steady = [growth * minute for minute in range(LENGTH + 10)]
        for namespace, values in (
            ("steady", list(steady)),
            ("restarts", restarting(steady, 1, LENGTH + 5)),
            ("moves", None),
        ):
            own = name.replace('namespace="plant"', f'namespace="{namespace}"')
            if values is None:
                inputs += [{"series": each, "values": text} for each, text in moved(own, steady, LENGTH // 2).items()]
            else:
                inputs.append({"series": own, "values": compress(values)})
    inputs += [
        {
            "series": f'glaim_consumer_lag_records{{{W0.replace("plant", namespace)},partition="0"}}',
            "values": f"500x{LENGTH + 10}",
        }
        for namespace in ("steady", "restarts", "moves")
    ]
    asked = [
        {
            "expr": f'label_replace(max_over_time({name}[5m]), "record", "{name}", "", "")',
            "eval_time": f"{LENGTH}m",
            "exp_samples": [],
        }
        for name in sorted({rule["record"] for rule in RECORDED})
    ]
    test = {"interval": "1m", "input_series": inputs, "promql_expr_test": asked}
    rules = bare_rules.with_name("records.yaml")
    records = [rule for rule in all_rules() if "record" in rule]
    rules.write_text(json.dumps({"groups": [{"name": "records", "rules": records}]}))
    text = run_rules(promtool, rules, test, 1)
    found = {}
    for labels, value in re.findall(r"\{([^}]*)\} ([^\s,]+)", text):
        of = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        found[of["record"], of.get("slo", ""), of.get("method", ""), of["namespace"]] = float(value)
    assert found, text[-2000:]
    return found


@pytest.mark.slow  # quicker: test_alerts.py
@pytest.mark.parametrize("namespace", ["restarts", "moves"])
@pytest.mark.parametrize("rule", RECORDED, ids=lambda rule: " ".join(key(rule)).strip())
def test_a_recorded_rate_does_not_depend_on_restarts(
    rule: dict[str, Any], namespace: str, recorded: dict[tuple[str, str, str, str], float]
) -> None:
    name, slo = key(rule)
    steady = {of: value for of, value in recorded.items() if of[:2] == (name, slo) and of[3] == "steady"}
    assert steady, "no value without restarts: it lacks a counter in counters()"
    for of, value in steady.items():
        other = recorded[(*of[:3], namespace)]
        # What is counted between the last scrape and the restart is lost: half a minute of three, and of five minutes
        # at most a whole one.
        assert other == pytest.approx(value, rel=0.3), of
