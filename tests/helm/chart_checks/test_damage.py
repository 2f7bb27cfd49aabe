"""Each rule sees what it is there for: a system that keeps them all is broken in one place, and the rule says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.helm.chart_checks import environment, house, network, probes, references, scheduled, schemas
from tests.helm.chart_checks.damage import Damaged, put

if TYPE_CHECKING:
    from tests.helm.chart_checks.system import System

pytestmark = pytest.mark.timeout(1800)

Rule = Callable[["System"], Iterator[str]]
Damage = Callable[[Damaged], None]


def at(kind: str, component: str, path: str, value: Any) -> Damage:
    """Sets one field of an object."""
    return lambda damaged: put(damaged.one(kind, component), path, value)


def of_pod(component: str, path: str, value: Any) -> Damage:
    """Sets one field of a component's pods."""
    kind = {"worker": "StatefulSet", "triton": "Deployment", "training": "CronJob"}.get(component, "Pod")
    return lambda damaged: put(damaged.pod(kind, component), path, value)


def again(kind: str, component: str) -> Damage:
    """Makes an object twice."""
    return lambda damaged: damaged.objects.append(damaged.one(kind, component))


def without(kind: str, component: str) -> Damage:
    return lambda damaged: damaged.remove(kind, component)


def more(kind: str, api: str, component: str, **fields: Any) -> Damage:
    """Makes one more object, with the labels of an object of this component."""

    def damage(damaged: Damaged) -> None:
        labels = damaged.one("Service", component)["metadata"]["labels"]
        metadata = {"name": "one-more", "namespace": damaged.system.namespace, "labels": labels}
        damaged.objects.append({"apiVersion": api, "kind": kind, "metadata": metadata, **fields})

    return damage


def variable(component: str, name: str, value: str) -> Damage:
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
    # house
    (house.check, of_pod("worker", "containers.0.securityContext.readOnlyRootFilesystem", False), "readOnlyRoot"),
    (house.check, of_pod("worker", "automountServiceAccountToken", None), "automountServiceAccountToken"),
    (house.check, of_pod("triton", "enableServiceLinks", None), "enableServiceLinks"),
    (house.check, of_pod("worker", "containers.0.image", "registry.example:5000/worker"), "neither tag nor digest"),
    (house.check, of_pod("worker", "containers.0.image", "worker:latest"), "pushed last"),
    (house.check, of_pod("worker", "containers.0.resources.requests", None), "requests no cpu"),
    (house.check, of_pod("worker", "containers.0.resources.limits", None), "no memory limit"),
    (house.check, of_pod("worker", "volumes.0.emptyDir", {}), "no sizeLimit"),
    (house.check, of_pod("worker", "containers.0.volumeMounts", [TMP, TMP]), "mounted 2 times"),
    (house.check, of_pod("worker", "containers.0.volumeMounts.0.name", "gone"), "no volume of the pod"),
    (house.check, of_pod("worker", "volumes.0", {"name": "other", "emptyDir": {}}), "mounted nowhere"),
    (house.check, of_pod("worker", "volumes.0", {"name": "tmp", "configMap": {"name": "x"}}), "is a configMap"),
    (house.check, of_pod("worker", "containers.0.env", [SECRET, SECRET]), "variable LOGIN is there 2 times"),
    (house.check, again("Service", "worker"), "made 2 times"),
    (house.check, at("Service", "worker", "metadata.name", "x" * 64), "at most 63"),
    (house.check, at("StatefulSet", "worker", "metadata.name", "x" * 53), "at most 52"),
    (house.check, at("Service", "worker", "metadata.namespace", "default"), "stands in the namespace default"),
    (house.check, at("Service", "worker", "metadata.labels", OTHER), "lacks the label app.kubernetes.io/instance"),
    # references
    (references.check, at("StatefulSet", "worker", "spec.selector", {"matchLabels": OTHER}), "expected its own"),
    (references.check, at("StatefulSet", "worker", "spec.serviceName", "gone"), "names the Service gone"),
    (references.check, at("Service", "worker", "spec.clusterIP", None), "must be headless"),
    (references.check, at("Service", "triton", "spec.selector", OTHER), "selects the pods of nobody"),
    (references.check, at("Service", "worker", "spec.ports.0.targetPort", "http"), "does not open"),
    (references.check, at("PodDisruptionBudget", "triton", "spec.selector", {"matchLabels": OTHER}), "of nobody"),
    (references.check, at("PodDisruptionBudget", "worker", "spec.maxUnavailable", 0), "can ever be drained"),
    (references.check, at("PodDisruptionBudget", "worker", "spec.minAvailable", 1), "expected one of maxUnavailable"),
    (references.check, of_pod("worker", "topologySpreadConstraints.0.labelSelector", None), "not its own"),
    (references.check, of_pod("worker", "volumes.0", {"name": "x", "configMap": {"name": "gone"}}), "ConfigMap gone"),
    (references.check, of_pod("worker", "volumes.0", {"name": "x", "secret": {"secretName": "gone"}}), "Secret gone"),
    (
        references.check,
        of_pod("worker", "volumes.0", {"name": "x", "persistentVolumeClaim": {"claimName": "gone"}}),
        "PersistentVolumeClaim gone",
    ),
    (references.check, of_pod("worker", "containers.0.env.0", SECRET), "variable LOGIN: needs Secret forgotten"),
    (references.check, of_pod("worker", "containers.0.envFrom", [{"secretRef": {"name": "gone"}}]), "Secret gone"),
    (references.check, of_pod("worker", "volumes.0", PROJECTED), "Secret gone"),
    (references.check, more("ConfigMap", "v1", "worker", data={}), "is made, and no pod uses it"),
    (references.check, of_pod("worker", "imagePullSecrets", [{"name": "gone"}]), "Secret gone"),
    (references.check, of_pod("worker", "serviceAccountName", "gone"), "runs as gone"),
    (references.check, without("ServiceAccount", "triton"), "which is neither made nor named"),
    (references.check, of_pod("triton", "serviceAccountName", None), "namespace's default account"),
    # probes
    (probes.check, of_pod("worker", "containers.0.livenessProbe.httpGet.port", "http"), "asks the port http"),
    (probes.check, of_pod("triton", "containers.0.startupProbe", None), "has no startupProbe"),
    (probes.check, of_pod("worker", "containers.0.startupProbe.failureThreshold", 3), "s to start"),
    (probes.check, of_pod("worker", "containers.0.livenessProbe.failureThreshold", 1), "is restarted after 10 s"),
    (probes.check, of_pod("worker", "containers.0.readinessProbe.failureThreshold", 60), "slower than readiness"),
    (probes.check, of_pod("worker", "containers.0.readinessProbe.timeoutSeconds", 60), "longer for an answer"),
    (probes.check, of_pod("worker", "terminationGracePeriodSeconds", 1), "1 s to stop"),
    (
        probes.check,
        of_pod("worker", "containers.0.lifecycle", {"preStop": {"sleep": {"seconds": 60}}}),
        "sleeps 60 s of the 60 s",
    ),
    (
        probes.check,
        of_pod("triton", "containers.0.lifecycle", {"preStop": {"exec": {"command": ["sleep", "99"]}}}),
        "sleeps 99 s of the 40 s",
    ),
    # autoscalers
    (references.check, at("ScaledObject", "worker", "spec.scaleTargetRef.name", "gone"), "StatefulSet/gone, which"),
    (references.check, at("StatefulSet", "worker", "spec.replicas", 3), "every upgrade sets"),
    (references.check, at("ScaledObject", "worker", "spec.minReplicaCount", 99), "the other way round"),
    (references.check, at("ScaledObject", "worker", "spec.triggers.0.metadata.topic", "x"), "looks at topic x"),
    (references.check, at("ScaledObject", "worker", "spec.triggers.0.metadata.consumerGroup", "x"), "consumerGroup x"),
    (references.check, without("TriggerAuthentication", "worker"), "logs in by"),
    (references.check, at("TriggerAuthentication", "worker", "spec.secretTargetRef.0.name", "gone"), "Secret gone"),
    # monitors
    (references.check, at("PodMonitor", "worker", "spec.selector", {"matchLabels": OTHER}), "selects no pod"),
    (references.check, at("PodMonitor", "triton", "spec.podMetricsEndpoints.0.port", "http"), "asks the port http"),
    (
        references.check,
        more("ServiceMonitor", OPERATOR, "worker", spec={"selector": {"matchLabels": OTHER}, "endpoints": []}),
        "selects no Service",
    ),
    (
        references.check,
        more("ServiceMonitor", OPERATOR, "worker", spec={"selector": {}, "endpoints": [{"port": "http"}]}),
        "asks the port http, which Service/",
    ),
    # retraining
    (scheduled.check, at("CronJob", "training", "spec.schedule", "0 3 * * 7"), "days of the week"),
    (scheduled.check, of_pod("training", "restartPolicy", "OnFailure"), "podFailurePolicy needs"),
    (house.check, of_pod("training", "initContainers.1.resources.limits", None), "no memory limit"),
    (environment.check, of_pod("training", "initContainers.2.command.1", "dumpp"), "no command dumpp"),
    (environment.check, of_pod("training", "initContainers.2.command.2", "--sinze"), "no option --sinze"),
    (references.check, without("PersistentVolumeClaim", "training"), "PersistentVolumeClaim"),
    (references.check, without("ConfigMap", "training"), "ConfigMap"),
    (network.check, at("NetworkPolicy", "training", "spec.egress.1.ports", [{"port": 1}]), "is told of kafka-0:9092"),
    # network
    (network.check, at("NetworkPolicy", "triton", "spec.podSelector.matchLabels", OTHER), "selects no pod"),
    (network.check, without("NetworkPolicy", "triton"), "no NetworkPolicy selects it"),
    (network.check, without("NetworkPolicy", "test"), "no NetworkPolicy selects it"),
    (network.check, at("NetworkPolicy", "triton", "spec.ingress", []), "does not let StatefulSet/"),
    (network.check, at("NetworkPolicy", "worker", "spec.ingress", []), "no policy lets a Prometheus in"),
    (network.check, at("NetworkPolicy", "worker", "spec.egress", []), "no policy lets it out there"),
    (network.check, at("NetworkPolicy", "worker", "spec.egress.0.ports", [{"port": 53}]), "DNS by UDP"),
    (network.check, at("NetworkPolicy", "worker", "spec.egress.1.ports", [{"port": 9093}]), "kafka-0:9092"),
    (network.check, at("NetworkPolicy", "triton", "spec.ingress", [{}]), "a stranger in the namespace reaches"),
    # environment
    (environment.check, variable("worker", "GLAIM_KAFAK", "kafka:9092"), "GLAIM_KAFAK is no setting"),
    (environment.check, variable("worker", "GLAIM_METRICS_PORT", "tcp://10.0.0.1:80"), "GLAIM_METRICS_PORT"),
    (environment.check, variable("worker", "GLAIM_CATALOGUE", "/etc/groups.yaml"), "neither mounted nor in the image"),
    (environment.check, of_pod("worker", "containers.0.command", ["glaim-stream", "work"]), "no command work"),
    (
        environment.check,
        of_pod("worker", "containers.0.command", ["glaim-stream", "worker", "--kafak=x:1"]),
        "no option --kafak",
    ),
]


@pytest.mark.parametrize(("rule", "damage", "words"), BROKEN, ids=[words for *_, words in BROKEN])
def test_what_is_broken_is_said(full: System, rule: Rule, damage: Damage, words: str) -> None:
    damaged = Damaged(full)
    damage(damaged)
    problems = list(rule(damaged.system))
    assert any(words in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (at("StatefulSet", "worker", "spec.replica", 2), "replica"),
        (at("StatefulSet", "worker", "apiVersion", "apps/v1beta1"), "has no StatefulSet of apps/v1beta1"),
        (at("Service", "worker", "spec.ports.0.port", "http"), "http"),
        (of_pod("worker", "containers.0.resources.limits.memory", "2Gx"), "memory is no quantity: '2Gx'"),
        (of_pod("worker", "containers.0.resources.limits.memory", "1Mi"), "more than its limit 1Mi"),
        (of_pod("worker", "containers.0.volumeMount", []), "volumeMount"),
    ],
)
def test_what_breaks_a_schema_is_said(full: System, damage: Damage, words: str) -> None:
    damaged = Damaged(full)
    damage(damaged)
    problems = list(schemas.check(damaged.system, schemas.newest_minors(1)[0]))
    assert any(words in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("quantity", "size"),
    [
        ("250m", 0.25),
        ("1Gi", 1024.0**3),
        ("2", 2.0),
        ("1.5k", 1500.0),
        ("1e3", 1000.0),
        ("2E", 2e18),
        ("1Ei", 1024.0**6),
    ],
)
def test_quantities_are_read_as_kubernetes_reads_them(quantity: str, size: float) -> None:
    assert schemas.size(quantity) == size
