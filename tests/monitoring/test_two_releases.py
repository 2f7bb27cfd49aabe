"""Two releases in a namespace, or of one name in two namespaces or clusters: faults are neither hidden nor shared.

Each case in which an alert fires runs beside a case in which it does not: as another release of its namespace, as the
release of the same name in another namespace, and as the same release in another cluster of a Prometheus that federates
them, with the rules that the chart renders for such. No rule may fail, as one that matched many to many would.
"""

from itertools import product
from pathlib import Path

import pytest
import yaml

from tests.monitoring.alert_cases import CASES, Case
from tests.monitoring.rule_tests import run_rules
from tests.monitoring.test_alerts import alerts_got, bare_rules, promtool

__all__ = ["bare_rules", "promtool"]  # fixtures

# Their series come from kube-state-metrics, which knows Jobs and no releases.
OF_NAMESPACES = {"GlaimRetrainingFailed", "GlaimRetrainingRefused"}
PAIRS = [
    (fault, next(each for each in CASES if each.alert == fault.alert and not each.fires))
    for fault in CASES
    if fault.fires and fault.alert not in OF_NAMESPACES
]
HEALTHY = {"release": "healthy", "namespace": "elsewhere", "cluster": "west"}


def _minute(case: Case) -> int:
    return int(case.at.removesuffix("m"))


def _beside(name: str, number: int, apart: str) -> str:
    """A series of the healthy neighbour of a case."""
    if apart == "release":
        return _of_case(name.replace("line-1", HEALTHY["release"]), number, "east")
    if apart == "cluster":
        return _of_case(name, number, "west")
    return name.replace('namespace="plant"', f'namespace="{HEALTHY["namespace"]}-{number}"')


def _of_case(name: str, number: int, cluster: str) -> str:
    return name.replace('namespace="plant"', f'cluster="{cluster}",namespace="case-{number}"')


def _run(promtool: Path, rules: Path, apart: str, numbers: list[int], pace: int) -> set[tuple[int, int, str]]:
    """Number, minute and neighbour ("" for the faulty one) of every alert that a pair gets."""
    series = {}
    for number in numbers:
        fault, calm = PAIRS[number]
        for name, values in fault.series.items():
            series[_of_case(name, number, "east")] = values
        series |= {_beside(name, number, apart): values for name, values in calm.series.items()}
    asked = {(PAIRS[number][0].alert, _minute(case)) for number in numbers for case in PAIRS[number]}
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": []} for alert, minute in sorted(asked)
        ],
    }
    text = run_rules(promtool, rules, test, pace)
    assert "execution:" not in text, text[:2000]
    found = set()
    for alert, minute, labels in alerts_got(text):
        number = int(labels["namespace"].rpartition("-")[2])
        if PAIRS[number][0].alert == alert:
            calm = labels.get(apart, "").startswith(HEALTHY[apart])
            found.add((number, minute, apart if calm else ""))
    return found


@pytest.fixture(scope="module")
def got(promtool: Path, bare_rules: Path) -> dict[str, set[tuple[int, int, str]]]:
    """What each pair gets, by what tells its two apart."""
    long = [number for number, pair in enumerate(PAIRS) if max(map(_minute, pair)) > 60]
    short = [number for number in range(len(PAIRS)) if number not in long]
    return {
        apart: _run(promtool, rules, apart, short, 1) | _run(promtool, rules, apart, long, 5)
        for apart, rules in {**dict.fromkeys(HEALTHY, bare_rules), "cluster": _with_clusters(bare_rules)}.items()
    }


def _with_clusters(rules: Path) -> Path:
    """The rules with monitoring.rules.clusterLabels, as tests/helm/test_chart_monitoring.py expects them."""
    content = yaml.safe_load(rules.read_text())
    for rule in (rule for group in content["groups"] for rule in group["rules"]):
        rule["expr"] = rule["expr"].replace("(namespace", "(cluster, namespace")
    file = rules.with_name("rules-of-clusters.yaml")
    file.write_text(yaml.safe_dump(content))
    return file


@pytest.mark.slow  # quicker: test_alerts.py, with one release
@pytest.mark.parametrize(
    ("apart", "number"),
    list(product(HEALTHY, range(len(PAIRS)))),
    ids=lambda each: each if isinstance(each, str) else f"{PAIRS[each][0].alert} {PAIRS[each][0].situation}",
)
def test_a_healthy_neighbour_neither_hides_an_alert_nor_gets_it(
    apart: str, number: int, got: dict[str, set[tuple[int, int, str]]]
) -> None:
    fault, calm = PAIRS[number]
    assert (number, _minute(fault), "") in got[apart], "hidden by its neighbour"
    assert (number, _minute(calm), apart) not in got[apart], "the neighbour alerts too"


def test_every_alert_of_a_release_has_a_pair() -> None:
    assert {fault.alert for fault, _ in PAIRS} == {case.alert for case in CASES} - OF_NAMESPACES
