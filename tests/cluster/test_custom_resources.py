"""Objects of the Prometheus operator and KEDA are created only in clusters that serve these kinds."""

import pytest

from tests.cluster.release import Release

pytestmark = pytest.mark.timeout(300)

OPERATOR = "monitoring.coreos.com/v1"
KEDA = "keda.sh/v1alpha1"
DASHBOARD = "plant-glaim-stream-dashboard"


def selected(release: Release, monitor: dict[str, object], kind: str) -> set[str]:
    """The names of the pods or Services that a monitor selects."""
    labels = monitor["spec"]["selector"]["matchLabels"]  # type: ignore[index]
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    return {item["metadata"]["name"] for item in release.api.listed("v1", kind, release.namespace, selector)}


def test_every_pod_is_monitored_if_the_operator_is_installed(release: Release) -> None:
    release.install()
    monitors = release.all(OPERATOR, "PodMonitor")
    monitored: set[str] = set()
    for monitor in monitors:
        monitored |= selected(release, monitor, "Pod")
    assert monitored == {pod["metadata"]["name"] for pod in release.pods()}
    ports = {port["name"] for pod in release.pods() for item in pod["spec"]["containers"] for port in item["ports"]}
    assert {endpoint["port"] for monitor in monitors for endpoint in monitor["spec"]["podMetricsEndpoints"]} <= ports
    rules = {each["metadata"]["name"]: each["spec"]["groups"] for each in release.all(OPERATOR, "PrometheusRule")}
    assert set(rules) == {"plant-glaim-stream-declared", "plant-glaim-stream-monitoring"}
    assert sum(len(group["rules"]) for group in rules["plant-glaim-stream-monitoring"]) > 5
    assert release.one("v1", "ConfigMap", DASHBOARD) is not None


def test_upgrade_keeps_the_number_of_workers_set_by_the_autoscaler(release: Release) -> None:
    """Otherwise an upgrade under load would reduce the workers to the minimum."""
    release.install({"autoscaling": {"kind": "keda"}})
    release.api.patch(
        "apps/v1", "StatefulSet", "plant-glaim-stream-worker", {"spec": {"replicas": 4}}, release.namespace
    )
    release.until(lambda: len(release.ready("worker")) == 4, "there are 4 workers")
    release.upgrade({"autoscaling": {"kind": "keda"}, "worker": {"logLevel": "debug"}})
    assert len(release.ready("worker")) == 4


def test_horizontal_pod_autoscaler_scales_the_workers(release: Release) -> None:
    release.install({"autoscaling": {"kind": "hpa", "minReplicas": 3}})
    release.until(lambda: len(release.ready("worker")) == 3, "it has raised the workers to the minimum")
