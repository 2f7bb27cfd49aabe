"""What only this chart can know to fit: the worker's pages and port, selectors that never change, images.

What any chart has to keep to is in chart_checks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.helm.matrix import APIS, MATRIX
from tests.helm.rendered import environment, of_kind, triton_pod, worker_pod

if TYPE_CHECKING:
    from tests.helm.conftest import Chart

pytestmark = pytest.mark.timeout(1800)

every_combination = pytest.mark.parametrize("name", MATRIX)


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
