"""Objects of the Prometheus operator and KEDA are created only in clusters that serve these kinds."""

import pytest

from tests.cluster.references import assert_complete
from tests.cluster.release import Release
from tests.helm.matrix import SECURED

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


def test_services_can_be_monitored_instead_of_pods(release: Release) -> None:
    release.install({"monitoring": {"podMonitor": {"enabled": False}, "serviceMonitor": {"enabled": True}}})
    assert release.all(OPERATOR, "PodMonitor") == []
    for monitor in release.all(OPERATOR, "ServiceMonitor"):
        names = selected(release, monitor, "Service")
        assert names
        for name in names:
            service = release.one("v1", "Service", name)
            assert service is not None
            offered = {port["name"] for port in service["spec"]["ports"]}
            assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= offered


def test_no_monitoring_without_the_operator(bare_release: Release) -> None:
    bare_release.install()
    assert not {thing["kind"] for thing in bare_release.manifest()} & {"PodMonitor", "ServiceMonitor", "PrometheusRule"}
    assert bare_release.one("v1", "ConfigMap", DASHBOARD) is None


@pytest.mark.parametrize(
    "changes", [{"autoscaling": {"kind": "keda"}}, {"monitoring": {"podMonitor": {"enabled": True}}}]
)
def test_enabled_but_unsupported_kinds_are_rejected(bare_release: Release, changes: dict[str, object]) -> None:
    before = bare_release.objects()
    message = bare_release.rejection(changes)
    assert "keda.sh" in message or "monitoring.coreos.com" in message
    assert bare_release.objects() == before


def test_keda_target_and_secrets_exist(release: Release) -> None:
    secrets = {"kafka-login": ["username", "password"], "kafka-ca": ["root.pem"]}
    for name, keys in secrets.items():
        data = dict.fromkeys(keys, "x")
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
        release.api.create(secret, release.namespace)
    release.install({**SECURED, "autoscaling": {"kind": "keda"}})
    (scaled,) = release.all(KEDA, "ScaledObject")
    target = scaled["spec"]["scaleTargetRef"]
    assert release.one(target["apiVersion"], target["kind"], target["name"]) is not None
    (authentication,) = release.all(KEDA, "TriggerAuthentication")
    assert scaled["spec"]["triggers"][0]["authenticationRef"]["name"] == authentication["metadata"]["name"]
    for reference in authentication["spec"]["secretTargetRef"]:
        secret_found = release.one("v1", "Secret", reference["name"])
        assert secret_found is not None
        assert reference["key"] in secret_found["data"]
    assert_complete(release)


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
