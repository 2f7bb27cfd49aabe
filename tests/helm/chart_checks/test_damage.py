"""Each rule reports its problem: a system that complies with all rules is damaged in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.helm.chart_checks import conventions, environment, network, probes, references, scheduled, schemas
from tests.helm.chart_checks.damage import Damaged, put

if TYPE_CHECKING:
    from tests.helm.chart_checks.system import System

pytestmark = pytest.mark.timeout(1800)

Rule = Callable[["System"], Iterator[str]]
Damage = Callable[[Damaged], None]


def set_field(kind: str, component: str, path: str, value: Any) -> Damage:
    """Set one field of an object."""
    return lambda damaged: put(damaged.one(kind, component), path, value)


def set_pod_field(component: str, path: str, value: Any) -> Damage:
    """Set one field of a component's pods."""
    kind = {"worker": "StatefulSet", "triton": "Deployment", "training": "CronJob"}.get(component, "Pod")
    return lambda damaged: put(damaged.pod(kind, component), path, value)


def duplicate(kind: str, component: str) -> Damage:
    """Duplicate an object."""
    return lambda damaged: damaged.objects.append(damaged.one(kind, component))


def remove(kind: str, component: str) -> Damage:
    return lambda damaged: damaged.remove(kind, component)


def add(kind: str, api: str, component: str, **fields: Any) -> Damage:
    """Add an object with the labels of this component."""

    def damage(damaged: Damaged) -> None:
        labels = damaged.one("Service", component)["metadata"]["labels"]
        metadata = {"name": "one-more", "namespace": damaged.system.namespace, "labels": labels}
        damaged.objects.append({"apiVersion": api, "kind": kind, "metadata": metadata, **fields})

    return damage


def set_variable(component: str, name: str, value: str) -> Damage:
    def damage(damaged: Damaged) -> None:
        container = damaged.container("StatefulSet" if component == "worker" else "Deployment", component)
        given = [item for item in container["env"] if item["name"] != name]
        container["env"] = [*given, {"name": name, "value": value}]

    return damage


OTHER = {"app.kubernetes.io/component": "other"}
TMP = {"name": "tmp", "mountPath": "/tmp"}
SECRET = {"name": "LOGIN", "valueFrom": {"secretKeyRef": {"name": "forgotten", "key": "password"}}}
PROJECTED = {"name": "x", "projected": {"sources": [{"secret": {"name": "gone"}}]}}
OPERATOR = "monitoring.coreos.com/v1"
BROKEN: list[tuple[Rule, Damage, str]] = [
    # conventions
    (
        conventions.check,
        set_pod_field("worker", "containers.0.securityContext.readOnlyRootFilesystem", False),
        "readOnlyRoot",
    ),
    (conventions.check, set_pod_field("worker", "automountServiceAccountToken", None), "automountServiceAccountToken"),
    (conventions.check, set_pod_field("triton", "enableServiceLinks", None), "enableServiceLinks"),
    (
        conventions.check,
        set_pod_field("worker", "containers.0.image", "registry.example:5000/worker"),
        "neither tag nor digest",
    ),
    (conventions.check, set_pod_field("worker", "containers.0.image", "worker:latest"), "changes with every push"),
    (conventions.check, set_pod_field("worker", "containers.0.resources.requests", None), "requests no cpu"),
    (conventions.check, set_pod_field("worker", "containers.0.resources.limits", None), "no memory limit"),
    (conventions.check, set_pod_field("worker", "volumes.0.emptyDir", {}), "no sizeLimit"),
    (conventions.check, set_pod_field("worker", "containers.0.volumeMounts", [TMP, TMP]), "mounted 2 times"),
    (conventions.check, set_pod_field("worker", "containers.0.volumeMounts.0.name", "gone"), "not a volume of the pod"),
    (conventions.check, set_pod_field("worker", "volumes.0", {"name": "other", "emptyDir": {}}), "is not mounted"),
    (
        conventions.check,
        set_pod_field("worker", "volumes.0", {"name": "tmp", "configMap": {"name": "x"}}),
        "is a configMap",
    ),
    (conventions.check, set_pod_field("worker", "containers.0.env", [SECRET, SECRET]), "variable LOGIN occurs 2 times"),
    (conventions.check, duplicate("Service", "worker"), "rendered 2 times"),
    (conventions.check, set_field("Service", "worker", "metadata.name", "x" * 64), "at most 63"),
    (conventions.check, set_field("StatefulSet", "worker", "metadata.name", "x" * 53), "at most 52"),
    (conventions.check, set_field("Service", "worker", "metadata.namespace", "default"), "is in the namespace default"),
    (
        conventions.check,
        set_field("Service", "worker", "metadata.labels", OTHER),
        "lacks the label app.kubernetes.io/instance",
    ),
    # references
    (references.check, set_field("StatefulSet", "worker", "spec.selector", {"matchLabels": OTHER}), "expected its own"),
    (references.check, set_field("StatefulSet", "worker", "spec.serviceName", "gone"), "names the Service gone"),
    (references.check, set_field("Service", "worker", "spec.clusterIP", None), "must be headless"),
    (references.check, set_field("Service", "triton", "spec.selector", OTHER), "selects the pods of no workload"),
    (references.check, set_field("Service", "worker", "spec.ports.0.targetPort", "http"), "does not open"),
    (
        references.check,
        set_field("PodDisruptionBudget", "triton", "spec.selector", {"matchLabels": OTHER}),
        "of no workload",
    ),
    (references.check, set_field("PodDisruptionBudget", "worker", "spec.maxUnavailable", 0), "can never be drained"),
    (
        references.check,
        set_field("PodDisruptionBudget", "worker", "spec.minAvailable", 1),
        "expected one of maxUnavailable",
    ),
    (
        references.check,
        set_pod_field("worker", "topologySpreadConstraints.0.labelSelector", None),
        "labels that it does not have",
    ),
    (
        references.check,
        set_pod_field("worker", "volumes.0", {"name": "x", "configMap": {"name": "gone"}}),
        "ConfigMap gone",
    ),
    (
        references.check,
        set_pod_field("worker", "volumes.0", {"name": "x", "secret": {"secretName": "gone"}}),
        "Secret gone",
    ),
    (
        references.check,
        set_pod_field("worker", "volumes.0", {"name": "x", "persistentVolumeClaim": {"claimName": "gone"}}),
        "PersistentVolumeClaim gone",
    ),
    (references.check, set_pod_field("worker", "containers.0.env.0", SECRET), "variable LOGIN: needs Secret forgotten"),
    (
        references.check,
        set_pod_field("worker", "containers.0.envFrom", [{"secretRef": {"name": "gone"}}]),
        "Secret gone",
    ),
    (references.check, set_pod_field("worker", "volumes.0", PROJECTED), "Secret gone"),
    (references.check, add("ConfigMap", "v1", "worker", data={}), "is created, but no pod uses it"),
    (references.check, set_pod_field("worker", "imagePullSecrets", [{"name": "gone"}]), "Secret gone"),
    (references.check, set_pod_field("worker", "serviceAccountName", "gone"), "service account gone"),
    (references.check, remove("ServiceAccount", "triton"), "which neither the chart nor the values name"),
    (references.check, set_pod_field("triton", "serviceAccountName", None), "default service account"),
    # probes
    (probes.check, set_pod_field("worker", "containers.0.livenessProbe.httpGet.port", "http"), "uses the port http"),
    (probes.check, set_pod_field("triton", "containers.0.startupProbe", None), "has no startupProbe"),
    (probes.check, set_pod_field("worker", "containers.0.startupProbe.failureThreshold", 3), "s to start"),
    (
        probes.check,
        set_pod_field("worker", "containers.0.livenessProbe.failureThreshold", 1),
        "is restarted after 10 s",
    ),
    (
        probes.check,
        set_pod_field("worker", "containers.0.readinessProbe.failureThreshold", 60),
        "slower than readiness",
    ),
    (
        probes.check,
        set_pod_field("worker", "containers.0.readinessProbe.timeoutSeconds", 60),
        "timeout longer than its period",
    ),
    (probes.check, set_pod_field("worker", "terminationGracePeriodSeconds", 1), "1 s to stop"),
    (
        probes.check,
        set_pod_field("worker", "containers.0.lifecycle", {"preStop": {"sleep": {"seconds": 60}}}),
        "sleeps 60 s of the 60 s",
    ),
    (
        probes.check,
        set_pod_field("triton", "containers.0.lifecycle", {"preStop": {"exec": {"command": ["sleep", "99"]}}}),
        "sleeps 99 s of the 40 s",
    ),
    # autoscalers
    (
        references.check,
        set_field("ScaledObject", "worker", "spec.scaleTargetRef.name", "gone"),
        "StatefulSet/gone, which",
    ),
    (references.check, set_field("StatefulSet", "worker", "spec.replicas", 3), "every upgrade resets"),
    (references.check, set_field("ScaledObject", "worker", "spec.minReplicaCount", 99), "is above the maximum"),
    (references.check, set_field("ScaledObject", "worker", "spec.triggers.0.metadata.topic", "x"), "uses topic x"),
    (
        references.check,
        set_field("ScaledObject", "worker", "spec.triggers.0.metadata.consumerGroup", "x"),
        "consumerGroup x",
    ),
    (references.check, remove("TriggerAuthentication", "worker"), ": uses "),
    (
        references.check,
        set_field("TriggerAuthentication", "worker", "spec.secretTargetRef.0.name", "gone"),
        "Secret gone",
    ),
    # monitors
    (references.check, set_field("PodMonitor", "worker", "spec.selector", {"matchLabels": OTHER}), "selects no pod"),
    (
        references.check,
        set_field("PodMonitor", "triton", "spec.podMetricsEndpoints.0.port", "http"),
        "uses the port http",
    ),
    (
        references.check,
        add("ServiceMonitor", OPERATOR, "worker", spec={"selector": {"matchLabels": OTHER}, "endpoints": []}),
        "selects no Service",
    ),
    (
        references.check,
        add("ServiceMonitor", OPERATOR, "worker", spec={"selector": {}, "endpoints": [{"port": "http"}]}),
        "uses the port http, which Service/",
    ),
    # retraining
    (scheduled.check, set_pod_field("training", "restartPolicy", "OnFailure"), "podFailurePolicy needs"),
    (conventions.check, set_pod_field("training", "initContainers.1.resources.limits", None), "no memory limit"),
    (environment.check, set_pod_field("training", "initContainers.2.command.1", "dumpp"), "no command dumpp"),
    (environment.check, set_pod_field("training", "initContainers.2.command.2", "--sinze"), "no option --sinze"),
    (references.check, remove("PersistentVolumeClaim", "training"), "PersistentVolumeClaim"),
    (references.check, remove("ConfigMap", "training"), "ConfigMap"),
    (
        network.check,
        set_field("NetworkPolicy", "training", "spec.egress.1.ports", [{"port": 1}]),
        "is configured with kafka-0:9092",
    ),
    # network
    (network.check, set_field("NetworkPolicy", "triton", "spec.podSelector.matchLabels", OTHER), "selects no pod"),
    (network.check, remove("NetworkPolicy", "triton"), "no NetworkPolicy selects it"),
    (network.check, remove("NetworkPolicy", "test"), "no NetworkPolicy selects it"),
    (network.check, set_field("NetworkPolicy", "triton", "spec.ingress", []), "does not admit StatefulSet/"),
    (network.check, set_field("NetworkPolicy", "worker", "spec.ingress", []), "no policy allows a Prometheus"),
    (network.check, set_field("NetworkPolicy", "worker", "spec.egress", []), "no policy allows this egress"),
    (network.check, set_field("NetworkPolicy", "worker", "spec.egress.0.ports", [{"port": 53}]), "DNS by UDP"),
    (network.check, set_field("NetworkPolicy", "worker", "spec.egress.1.ports", [{"port": 9093}]), "kafka-0:9092"),
    (
        network.check,
        set_field("NetworkPolicy", "triton", "spec.ingress", [{}]),
        "a foreign pod of namespace plant can connect",
    ),
    # environment
    (environment.check, set_variable("worker", "GLAIM_KAFAK", "kafka:9092"), "GLAIM_KAFAK is not a setting"),
    (environment.check, set_variable("worker", "GLAIM_METRICS_PORT", "tcp://10.0.0.1:80"), "GLAIM_METRICS_PORT"),
    (
        environment.check,
        set_variable("worker", "GLAIM_CATALOGUE", "/etc/groups.yaml"),
        "neither mounted nor in the image",
    ),
    (environment.check, set_pod_field("worker", "containers.0.command", ["glaim-stream", "work"]), "no command work"),
    (
        environment.check,
        set_pod_field("worker", "containers.0.command", ["glaim-stream", "worker", "--kafak=x:1"]),
        "no option --kafak",
    ),
]


@pytest.mark.parametrize(("rule", "damage", "message"), BROKEN, ids=[message for *_, message in BROKEN])
def test_rule_reports_damage(full: System, rule: Rule, damage: Damage, message: str) -> None:
    damaged = Damaged(full)
    damage(damaged)
    problems = list(rule(damaged.system))
    assert any(message in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (set_field("StatefulSet", "worker", "spec.replica", 2), "replica"),
        (set_field("StatefulSet", "worker", "apiVersion", "apps/v1beta1"), "has no StatefulSet of apps/v1beta1"),
        (set_field("Service", "worker", "spec.ports.0.port", "http"), "http"),
        (set_pod_field("worker", "containers.0.resources.limits.memory", "2Gx"), "memory is not a quantity: '2Gx'"),
        (set_pod_field("worker", "containers.0.resources.limits.memory", "1Mi"), "more than its limit 1Mi"),
        (set_pod_field("worker", "containers.0.volumeMount", []), "volumeMount"),
    ],
)
def test_schema_violation_is_reported(full: System, damage: Damage, message: str) -> None:
    damaged = Damaged(full)
    damage(damaged)
    problems = list(schemas.check(damaged.system, schemas.newest_minors(1)[0]))
    assert any(message in problem for problem in problems), problems
