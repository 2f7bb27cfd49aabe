"""Monitors, rules and dashboard of a release: when they are rendered, their content, and their targets."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from deploy.cache import CHECKOUT
from deploy.errors import FetchError
from deploy.prometheus_install import PrometheusUnavailable, find_prometheus
from tests.helm.matrix import MATRIX, SMALLEST, merged
from tests.helm.rendered import environment, worker_pod

if TYPE_CHECKING:
    from tests.helm.conftest import Chart

pytestmark = pytest.mark.timeout(1800)

FILES = CHECKOUT / "helm" / "glaim-stream" / "files"
OPERATOR = ["monitoring.coreos.com/v1"]
KINDS = {"PodMonitor", "ServiceMonitor", "PrometheusRule"}
Object = dict[str, Any]


def monitoring_objects(objects: list[Object]) -> list[Object]:
    return [
        each for each in objects if each["kind"] in KINDS or (each["kind"] == "ConfigMap" and "dashboard" in str(each))
    ]


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [each for each in objects if each["kind"] == kind]


def alerting(objects: list[Object]) -> Object:
    """The PrometheusRule with the alerts."""
    (rule,) = [each for each in of_kind(objects, "PrometheusRule") if each["metadata"]["name"].endswith("-monitoring")]
    return rule


def rules_by_alert(rule: Object) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for each in (each for group in rule["spec"]["groups"] for each in group["rules"] if "alert" in each):
        found.setdefault(each["alert"], []).append(each)
    return found


@pytest.mark.parametrize("name", ["metrics by TLS", "metrics by mutual TLS"])
def test_workers_are_scraped_by_tls_with_the_files_that_they_serve_with(chart: Chart, name: str) -> None:
    objects = chart.render(MATRIX[name], OPERATOR)
    monitors = of_kind(objects, "PodMonitor") + of_kind(objects, "ServiceMonitor")
    assert len(monitors) == 2
    endpoints = {each["metadata"]["name"]: endpoint for each in monitors for endpoint in endpoints_of(each)}
    assert "scheme" not in endpoints["demo-glaim-stream-triton"], "Triton has no TLS for its metrics"
    endpoint = endpoints["demo-glaim-stream-worker"]
    tls = endpoint["tlsConfig"]
    pod = worker_pod(objects)["spec"]
    given = environment(pod["containers"][0])
    (volume,) = [each for each in pod["volumes"] if each["name"] == "metrics-tls"]
    (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "metrics-tls"]
    mounted = {f"{mount['mountPath']}/{item['path']}": item["key"] for item in volume["secret"]["items"]}
    used = {name: mounted[given[name]["value"]] for name in given if name.startswith("GLAIM_METRICS_TLS")}
    assert len(mounted) == len(used), "nothing else is mounted"
    assert (endpoint["scheme"], volume["secret"]["secretName"]) == ("https", "metrics-server")
    if name == "metrics by TLS":
        assert used == {"GLAIM_METRICS_TLS_CERT": "tls.crt", "GLAIM_METRICS_TLS_KEY": "tls.key"}
        service = of_kind(objects, "StatefulSet")[0]["spec"]["serviceName"]
        assert tls == {
            "ca": {"secret": {"name": "metrics-server", "key": "ca.crt"}},
            "serverName": f"{service}.plant.svc",
        }
    else:
        assert used == {
            "GLAIM_METRICS_TLS_CERT": "server.crt",
            "GLAIM_METRICS_TLS_KEY": "server.key",
            "GLAIM_METRICS_TLS_CLIENT_CA": "root.pem",
        }
        assert tls == {
            "ca": {"secret": {"name": "metrics-server", "key": "root.pem"}},
            "serverName": "metrics.example",
            "cert": {"secret": {"name": "prometheus", "key": "user.crt"}},
            "keySecret": {"name": "prometheus", "key": "user.key"},
        }


def endpoints_of(monitor: Object) -> list[Object]:
    spec = monitor["spec"]
    return list(spec.get("podMetricsEndpoints") or spec["endpoints"])


def declared(chart: Chart, changes: Object) -> dict[str, Object]:
    objects = of_kind(chart.render(merged(SMALLEST, changes), [*OPERATOR, "keda.sh/v1alpha1"]), "PrometheusRule")
    (rule,) = [each for each in objects if each["metadata"]["name"].endswith("-declared")]
    return {each["record"]: each for group in rule["spec"]["groups"] for each in group["rules"]}


def test_release_declares_how_many_workers_and_tritons_should_run(chart: Chart) -> None:
    objects = chart.render(SMALLEST, OPERATOR)
    rules = declared(chart, {})
    workers, tritons = rules["glaim:release:workers_wanted"], rules["glaim:release:tritons_wanted"]
    assert (workers["expr"], tritons["expr"]) == ("vector(2)", "vector(1)")
    assert workers["labels"] == {
        "namespace": "plant",
        "release": "demo",
        "statefulset": of_kind(objects, "StatefulSet")[0]["metadata"]["name"],
    }
    assert tritons["labels"]["deployment"] == of_kind(objects, "Deployment")[0]["metadata"]["name"]
    assert declared(chart, {"worker": {"replicas": 0}})["glaim:release:workers_wanted"]["expr"] == "vector(0)"
    scaled = declared(chart, {"autoscaling": {"kind": "keda", "minReplicas": 3}})
    assert scaled["glaim:release:workers_wanted"]["expr"] == "vector(3)"
    outside = {"triton": {"enabled": False, "address": "triton:8001"}}
    assert "glaim:release:tritons_wanted" not in declared(chart, outside)


def test_single_alerts_are_changed_labelled_and_removed(chart: Chart) -> None:
    changes = {
        "GlaimInputSilent": {"enabled": False},
        "GlaimTimelinessBurn": {"severity": "info", "for": "1h", "labels": {"team": "night"}},
    }
    values = merged(SMALLEST, {"monitoring": {"rules": {"alerts": changes, "alertLabels": {"team": "plant"}}}})
    found = rules_by_alert(alerting(chart.render(values, OPERATOR)))
    usual = rules_by_alert(alerting(chart.render(SMALLEST, OPERATOR)))
    assert usual.keys() - found.keys() == {"GlaimInputSilent"}
    for each in found["GlaimTimelinessBurn"]:
        assert (each["labels"]["severity"], each["labels"]["team"], each["for"]) == ("info", "night", "1h")
    assert {each["labels"]["burn"] for each in found["GlaimTimelinessBurn"]} == {"fast", "slow", "ticket"}
    assert found["GlaimWorkersGone"][0]["labels"] == {"severity": "critical", "team": "plant"}
    assert "GlaimInputQuiet" in chart.rejection(
        merged(SMALLEST, {"monitoring": {"rules": {"alerts": {"GlaimInputQuiet": {}}}}}), OPERATOR
    )


NAMED = re.compile(r"# ([a-zA-Z ]+)$", re.MULTILINE)
PROBE_VALUES = {"darkGroups": 7, "darkGroupsPage": 8, "errorRatio": 1.7}


def test_every_limit_is_settable_and_every_name_in_a_rule_is_a_value(chart: Chart) -> None:
    defaults = yaml.safe_load((FILES.parent / "values.yaml").read_text())["monitoring"]
    named = {
        name
        for found in NAMED.findall(_expressions(yaml.safe_load((FILES / "rules.yaml").read_text())))
        for name in found.split()
    }
    budgets = {f"{name}Budget" for name in ("timeliness", "completeness", "availability", "modelShare")}
    ranges = {"fastShort", "fastLong", "slowShort", "slowLong", "ticketShort", "ticketLong", "readingsRange"}
    assert named == {*defaults["thresholds"], *budgets, *ranges, "minimumEvents"}
    values = {
        name: PROBE_VALUES.get(name, 0.1 + place / 1000 if "Share" in name or name == "coverage" else 100 + place)
        for place, name in enumerate(defaults["thresholds"])
    }
    assert len({*values.values()}) == len(values), "a limit of another name would show"
    text = _expressions(
        alerting(chart.render(merged(SMALLEST, {"monitoring": {"thresholds": values}}), OPERATOR))["spec"]
    )
    for name, value in values.items():
        assert {line.rsplit("#", 1)[0].split()[-1] for line in text.splitlines() if line.endswith(f"# {name}")} == {
            str(value)
        }, name


@pytest.mark.parametrize(("share", "limit"), [(0.05, "0.0526"), (0.3, "0.4286"), (1, "99")])
def test_dead_letters_alert_above_the_share_that_the_workers_expect(chart: Chart, share: float, limit: str) -> None:
    """Relative to the usable readings: a share of 0.3 of the records is 3 letters beside 7 of them."""
    objects = chart.render(merged(SMALLEST, {"worker": {"deadLetterShare": share}}), OPERATOR)
    assert f"> {limit} # deadLetterShare" in _expressions(alerting(objects)["spec"])


def _expressions(spec: Object) -> str:
    return "\n".join(rule["expr"] for group in spec["groups"] for rule in group["rules"])


def test_silences_and_ranges_grow_with_the_step_of_the_catalogue(chart: Chart, tmp_path: Path) -> None:
    models = [
        {"name": f"m{step_s}", "learn": True, "step_s": step_s, "sensors": [{"id": "a"}]} for step_s in (60, 3600)
    ]
    learning = {
        "catalogue": {"inline": yaml.safe_dump({"models": models})},
        "models": {"source": "claim"},
        "worker": {"resources": {"requests": {"memory": "3Gi"}, "limits": {"memory": "4Gi"}}},
    }
    read = _expressions(alerting(chart.render(merged(SMALLEST, learning), OPERATOR))["spec"])
    rule = alerting(chart.render(merged(SMALLEST, {"monitoring": {"stepSeconds": 3600}}), OPERATOR))
    assert _expressions(rule["spec"]) == read
    assert "> 10800 # silenceSeconds" in read
    assert "> 3600 # lagSeconds" in read
    assert "[2h])) # fastShort" in read
    assert "[3d])) # ticketLong" in read
    _accepted(rule, tmp_path)


def test_labels_of_clusters_are_kept_by_every_rule_and_declared(chart: Chart, tmp_path: Path) -> None:
    changes = {"monitoring": {"rules": {"clusterLabels": {"cluster": "eu-1"}}}}
    rule = alerting(chart.render(merged(SMALLEST, changes), OPERATOR))
    text = _expressions(rule["spec"])
    assert "(cluster, namespace, release)" in text
    assert not re.search(r"\(namespace\b", text)
    assert declared(chart, changes)["glaim:release:workers_wanted"]["labels"]["cluster"] == "eu-1"
    _accepted(rule, tmp_path)


def _accepted(rule: Object, directory: Path) -> None:
    try:
        promtool = find_prometheus().tool
    except (PrometheusUnavailable, FetchError) as reason:
        pytest.skip(str(reason))
    file = directory / "rules.yaml"
    file.write_text(yaml.safe_dump(rule["spec"]))
    run = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_monitoring_is_rendered_if_the_operator_is_installed(chart: Chart) -> None:
    kinds = sorted(each["kind"] for each in monitoring_objects(chart.render(SMALLEST, OPERATOR)))
    assert kinds == ["ConfigMap", "PodMonitor", "PodMonitor", "PrometheusRule", "PrometheusRule"]


def test_monitoring_without_the_operator_must_be_enabled(chart: Chart) -> None:
    assert monitoring_objects(chart.render(SMALLEST)) == []
    enabled = {"monitoring": {"podMonitor": {"enabled": True}, "rules": {"enabled": True}}}
    assert len(monitoring_objects(chart.render(merged(SMALLEST, enabled)))) == 4


@pytest.mark.parametrize("kind", ["PodMonitor", "ServiceMonitor"])
def test_monitor_selects_its_pods_and_sets_the_job_that_the_rules_use(kind: str, chart: Chart) -> None:
    changes = {"monitoring": {"podMonitor": {"enabled": kind == "PodMonitor"}}}
    changes["monitoring"]["serviceMonitor"] = {"enabled": kind == "ServiceMonitor"}
    objects = chart.render(merged(SMALLEST, changes), OPERATOR)
    monitors = of_kind(objects, kind)
    assert len(monitors) == 2
    workloads = of_kind(objects, "StatefulSet") + of_kind(objects, "Deployment")
    rules = (FILES / "rules.yaml").read_text()
    for monitor in monitors:
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        targets = workloads if kind == "PodMonitor" else of_kind(objects, "Service")
        found = [
            each
            for each in targets
            if wanted <= (each["spec"]["template"] if kind == "PodMonitor" else each)["metadata"]["labels"].items()
        ]
        assert len(found) == 1, monitor["metadata"]["name"]
        (endpoint,) = monitor["spec"]["podMetricsEndpoints" if kind == "PodMonitor" else "endpoints"]
        assert endpoint["port"] in {
            port["name"]
            for port in (
                found[0]["spec"]["template"]["spec"]["containers"][0]["ports"]
                if kind == "PodMonitor"
                else found[0]["spec"]["ports"]
            )
        }
        labels = {each["targetLabel"]: each.get("replacement") for each in endpoint["relabelings"]}
        assert labels["release"] == "demo"
        assert f'job="{labels["job"]}"' in rules


def test_rules_equal_the_file_and_promtool_accepts_them(chart: Chart, tmp_path: Path) -> None:
    rule = alerting(chart.render(SMALLEST, OPERATOR))
    assert rule["spec"] == yaml.safe_load((FILES / "rules.yaml").read_text())
    try:
        promtool = find_prometheus().tool
    except (PrometheusUnavailable, FetchError) as reason:
        pytest.skip(str(reason))
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(rule["spec"]))
    run = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_every_alert_links_to_the_runbook(chart: Chart) -> None:
    values = merged(SMALLEST, {"monitoring": {"runbookUrl": "https://wiki.example/glaim"}})
    rule = alerting(chart.render(values, OPERATOR))
    alerts = [each for group in rule["spec"]["groups"] for each in group["rules"] if "alert" in each]
    assert alerts
    for alert in alerts:
        assert alert["annotations"]["runbook_url"] == f"https://wiki.example/glaim#{alert['alert'].lower()}"


def dashboard_of(chart: Chart, release: str = "demo", **changes: object) -> Object:
    values = merged(SMALLEST, {"monitoring": {"dashboard": changes}})
    run = chart.run(values, apis=OPERATOR, release=release)
    assert run.returncode == 0, run.stderr
    objects = [each for each in yaml.load_all(run.stdout, yaml.CSafeLoader) if each]
    (found,) = [each for each in monitoring_objects(objects) if each["kind"] == "ConfigMap"]
    return found


def test_dashboard_equals_the_file_and_has_the_label_of_the_sidecar(chart: Chart) -> None:
    dashboard = dashboard_of(chart, uid="plant")
    assert json.loads(dashboard["data"]["plant.json"]) == json.loads((FILES / "dashboard.json").read_text()) | {
        "uid": "plant"
    }
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_every_release_has_a_dashboard_of_its_own(chart: Chart) -> None:
    """Grafana keeps one dashboard of a uid: with the same, each release would replace the other's."""
    found = {}
    for release in ("north", "south", "north"):
        ((file, text),) = dashboard_of(chart, release)["data"].items()
        uid = json.loads(text)["uid"]
        assert file == f"{uid}.json"
        assert len(uid) <= 40
        assert found.setdefault(release, uid) == uid
    assert len(set(found.values())) == 2


def test_user_labels_are_added_and_do_not_override_those_of_the_chart(chart: Chart) -> None:
    labels = {"release": "kube-prometheus-stack", "app.kubernetes.io/instance": "other"}
    objects = monitoring_objects(chart.render(merged(SMALLEST, {"monitoring": {"labels": labels}}), OPERATOR))
    for each in objects:
        assert each["metadata"]["labels"]["release"] == "kube-prometheus-stack"
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == "demo"


def test_both_kinds_of_monitors_at_once_are_rejected(chart: Chart) -> None:
    message = chart.rejection(merged(SMALLEST, {"monitoring": {"serviceMonitor": {"enabled": True}}}), OPERATOR)
    assert "counted twice" in message
    assert chart.run(merged(SMALLEST, {"monitoring": {"serviceMonitor": {"enabled": True}}})).returncode == 0
