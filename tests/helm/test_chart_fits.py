"""What the chart makes fits together: selectors and pods, ports and probes, volumes and mounts, names and lengths."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from matrix import APIS, MATRIX
from rendered import component_of, containers, environment, of_kind, pods, triton_pod, worker_pod

if TYPE_CHECKING:
    from conftest import Chart

pytestmark = pytest.mark.timeout(1800)

every_combination = pytest.mark.parametrize("name", MATRIX)
EXISTING = {"our-groups", "recipe"}  # what the matrix names and others made


@every_combination
def test_selectors_match_the_pods_of_their_component(chart: Chart, name: str) -> None:
    objects = chart.render(MATRIX[name], APIS.get(name, ()))
    labels = {component_of(pod): pod["metadata"]["labels"].items() for pod in pods(objects).values()}
    for item in objects:
        spec = item.get("spec", {})
        if item["kind"] in ("StatefulSet", "Deployment", "PodDisruptionBudget"):
            assert spec["selector"]["matchLabels"].items() <= labels[component_of(item)]
        if item["kind"] == "Service":
            assert spec["selector"]
            assert spec["selector"].items() <= labels[component_of(item)]
    for pod in pods(objects).values():
        for constraint in pod["spec"].get("topologySpreadConstraints", []):
            assert constraint["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    worker = of_kind(objects, "StatefulSet", "worker")
    assert worker["spec"]["serviceName"] == of_kind(objects, "Service", "worker")["metadata"]["name"]


@every_combination
def test_ports_and_probes_meet_the_port_the_worker_listens_on(chart: Chart, name: str) -> None:
    objects = chart.render(MATRIX[name], APIS.get(name, ()))
    container = worker_pod(objects)["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"metrics": int(environment(container)["GLAIM_METRICS_PORT"]["value"])}
    pages = {probe: container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")}
    assert pages == {
        "startupProbe": "/health/started",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health/ready",
    }
    assert {container[probe]["httpGet"]["port"] for probe in pages} == {"metrics"}
    (service_port,) = of_kind(objects, "Service", "worker")["spec"]["ports"]
    assert (service_port["targetPort"], service_port["port"]) == ("metrics", ports["metrics"])


@every_combination
def test_what_is_mounted_and_named_is_there(chart: Chart, name: str) -> None:
    objects = chart.render(MATRIX[name], APIS.get(name, ()))
    made = {item["metadata"]["name"]: set(item["data"]) for item in objects if item["kind"] == "ConfigMap"}
    mounted_maps = set()
    for pod in pods(objects).values():
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        mounted = set()
        for container in containers(pod):
            paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
            assert len(paths) == len(set(paths))
            mounted |= {mount["name"] for mount in container.get("volumeMounts", [])}
            files = {key: variable.get("value", "") for key, variable in environment(container).items()}
            for variable in ("GLAIM_CATALOGUE", "GLAIM_SSL_CA_FILE"):
                value = files.get(variable, "/opt/glaim/")
                assert value.startswith("/opt/glaim/") or str(Path(value).parent) in paths
        assert mounted == set(volumes)
        for volume in volumes.values():
            source = volume.get("configMap")
            if source and source["name"] not in EXISTING:
                assert {item["key"] for item in source["items"]} == made[source["name"]]
                mounted_maps.add(source["name"])
    workers = {item for item in made if "-worker-" in item}
    assert workers <= mounted_maps, "a ConfigMap is made that nothing mounts"


@every_combination
def test_names_fit_and_everything_stands_in_the_namespace(chart: Chart, name: str) -> None:
    for item in chart.render(MATRIX[name], APIS.get(name, ())):
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", item["metadata"]["name"])
        assert item["metadata"]["namespace"] == "plant"
        # The label controller-revision-hash is a StatefulSet's name, a dash and ten digits; a CronJob has 52 at most.
        assert item["kind"] not in ("StatefulSet", "CronJob") or len(item["metadata"]["name"]) <= 52


@every_combination
def test_pods_keep_to_the_policy_restricted(chart: Chart, name: str) -> None:
    """Every rule of the Pod Security Standard `restricted` that can apply to a pod of Linux, and read-only roots."""
    allowed = {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
    for pod in pods(chart.render(MATRIX[name], APIS.get(name, ()))).values():
        spec = pod["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC", "ephemeralContainers"} & set(spec)
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"].get("runAsUser") != 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert "sysctls" not in spec["securityContext"]
        assert spec["automountServiceAccountToken"] is False
        assert all(set(volume) - {"name"} <= allowed for volume in spec.get("volumes", []))
        for container in containers(pod):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert all("hostPort" not in port for port in container.get("ports", []))


def test_a_new_image_or_catalogue_changes_the_pods_and_never_the_selectors(chart: Chart) -> None:
    first = chart.render(MATRIX["outside"])
    values = {**MATRIX["outside"], "worker": {"image": {"tag": "9.9.9"}}}
    other = chart.render({**values, "catalogue": {"inline": values["catalogue"]["inline"] + "\nmax_ahead_s: 60\n"}})
    assert worker_pod(first)["metadata"]["annotations"] != worker_pod(other)["metadata"]["annotations"]
    selectors = [of_kind(objects, "StatefulSet")["spec"]["selector"]["matchLabels"] for objects in (first, other)]
    assert selectors[0] == selectors[1]
    # Nor from one version of the chart to the next: a StatefulSet's cannot be changed.
    assert selectors[0] == {
        "app.kubernetes.io/name": "glaim-stream",
        "app.kubernetes.io/instance": "demo",
        "app.kubernetes.io/component": "worker",
    }


def test_the_image_is_the_one_named_by_digest_then_tag_then_version(chart: Chart) -> None:
    def image(registry: str = "", **changes: str) -> str:
        values = {**MATRIX["smallest"], "image": {"registry": registry}, "triton": {"image": changes}}
        return str(triton_pod(chart.render(values))["spec"]["containers"][0]["image"])

    digest = "sha256:" + "a" * 64
    assert re.fullmatch(r"glaim-stream/triton:[0-9]+\.[0-9]+\.[0-9]+.*", image())
    assert image("registry.example/team/", tag="1.2.3") == "registry.example/team/glaim-stream/triton:1.2.3"
    assert image("registry.example", tag="1.2.3", digest=digest) == f"registry.example/glaim-stream/triton@{digest}"
