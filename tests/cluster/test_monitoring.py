"""A real Prometheus with the configuration that the operator would generate from the monitors finds the pods.

Debian's Prometheus is built without Kubernetes discovery. The tests pass it the targets that this discovery would find,
one for each port of each pod with the pod's labels; Prometheus applies the relabelling that selects among them.
"""

import json
import re
import time
import urllib.request
from typing import Any

import pytest

from deploy.cluster.manifest import Object
from deploy.errors import FetchError
from deploy.prometheus import LocalPrometheus
from deploy.prometheus_install import PrometheusUnavailable, find_prometheus
from tests.cluster.release import Release

pytestmark = pytest.mark.timeout(300)
MONITORING = "monitoring.coreos.com/v1"


def discovered(pods: list[Object]) -> list[Object]:
    """The targets that Prometheus' discovery with the role `pod` would find, with the labels used here."""
    return [
        {
            "targets": [f"{pod['status']['podIP']}:{port['containerPort']}"],
            "labels": {
                "__meta_kubernetes_namespace": pod["metadata"]["namespace"],
                "__meta_kubernetes_pod_name": pod["metadata"]["name"],
                "__meta_kubernetes_pod_container_port_name": port["name"],
                **{_label(name): value for name, value in pod["metadata"]["labels"].items()},
            },
        }
        for pod in pods
        for container in pod["spec"]["containers"]
        for port in container.get("ports", [])
    ]


def _label(name: str) -> str:
    return "__meta_kubernetes_pod_label_" + re.sub(r"\W", "_", name)


def scrape_job(monitor: Object, found: list[Object]) -> Object:
    """The scrape job that the operator generates from a PodMonitor, limited to the fields that the chart uses.

    It keeps targets by the pod's labels and the port's name, labels them with namespace and pod, and then applies the
    relabelings of the monitor. Source: pkg/prometheus/promcfg.go of the operator.
    """
    spec, name = monitor["spec"], monitor["metadata"]["name"]
    (endpoint,) = spec["podMetricsEndpoints"]
    keep = [
        {"source_labels": [_label(label)], "regex": value, "action": "keep"}
        for label, value in spec["selector"]["matchLabels"].items()
    ]
    keep.append(
        {
            "source_labels": ["__meta_kubernetes_pod_container_port_name"],
            "regex": endpoint["port"],
            "action": "keep",
        }
    )
    describe = [
        {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
        {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
        {"target_label": "job", "replacement": f"{monitor['metadata']['namespace']}/{name}"},
    ]
    names = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    relabelings = [{names.get(key, key): value for key, value in each.items()} for each in endpoint["relabelings"]]
    return {
        "job_name": f"podMonitor/{name}",
        "scrape_interval": endpoint["interval"],
        "metrics_path": endpoint["path"],
        "static_configs": found,
        "relabel_configs": [*keep, *describe, *relabelings],
    }


def targets(prometheus: LocalPrometheus) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{prometheus.url}/api/v1/targets?state=active", timeout=10) as response:
        found: list[dict[str, Any]] = json.load(response)["data"]["activeTargets"]
    return found


def test_prometheus_finds_each_pod_once_with_the_job_that_the_rules_use(release: Release) -> None:
    try:
        find_prometheus()
    except (PrometheusUnavailable, FetchError) as reason:
        pytest.skip(str(reason))
    release.install({"worker": {"replicas": 3}})
    monitors = release.all(MONITORING, "PodMonitor")
    assert len(monitors) == 2
    everything = discovered(release.api.listed("v1", "Pod", release.namespace))
    assert len(everything) > len(release.pods()), "some ports are not for metrics and must be dropped"
    configuration = {"scrape_configs": [scrape_job(monitor, everything) for monitor in monitors]}
    expected = {
        (f"glaim-stream-{component}", release.name, release.namespace, pod["metadata"]["name"])
        for component in ("worker", "triton")
        for pod in release.pods(component)
    }
    assert len(expected) >= 4
    with LocalPrometheus(configuration) as prometheus:
        end_s = time.monotonic() + 30
        while len(targets(prometheus)) < len(expected) and time.monotonic() < end_s:
            time.sleep(0.5)
        found = [each["labels"] for each in targets(prometheus)]
    assert len(found) == len(expected)
    assert {(each["job"], each["release"], each["namespace"], each["instance"]) for each in found} == expected


def test_disabled_monitoring_is_removed(release: Release) -> None:
    disabled = {"enabled": False}
    release.install(wait=False)
    assert len(release.all(MONITORING, "PrometheusRule")) == 2
    release.upgrade({"monitoring": {"podMonitor": disabled, "rules": disabled, "dashboard": disabled}}, wait=False)
    assert [release.all(MONITORING, kind) for kind in ("PodMonitor", "ServiceMonitor", "PrometheusRule")] == [
        [],
        [],
        [],
    ]
    release.upgrade({"monitoring": {"podMonitor": disabled, "serviceMonitor": {"enabled": True}}}, wait=False)
    assert len(release.all(MONITORING, "ServiceMonitor")) == 2
