"""Properties specific to this chart: the worker's health pages and port, stable selectors, image names.

chart_checks contains the rules for charts in general.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.helm.matrix import APIS, MATRIX, SMALLEST, merged
from tests.helm.rendered import environment, of_kind, triton_pod, worker_pod

if TYPE_CHECKING:
    from tests.helm.conftest import Chart

pytestmark = pytest.mark.timeout(1800)

every_combination = pytest.mark.parametrize("name", MATRIX)


@every_combination
def test_ports_and_probes_match_the_metrics_port_of_the_worker(chart: Chart, name: str) -> None:
    objects = chart.render(MATRIX[name], APIS.get(name, ()))
    container = worker_pod(objects)["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    given = environment(container)
    assert ports.pop("page", None) == (
        int(given["GLAIM_PAGE"]["value"].rpartition(":")[2]) if "GLAIM_PAGE" in given else None
    )
    assert ports == {"metrics": int(given["GLAIM_METRICS_PORT"]["value"])}
    pages = {probe: container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")}
    assert pages == {
        "startupProbe": "/health/started",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health/ready",
    }
    assert {container[probe]["httpGet"]["port"] for probe in pages} == {"metrics"}
    scheme = "HTTPS" if "GLAIM_METRICS_TLS_CERT" in given else None
    assert {container[probe]["httpGet"].get("scheme") for probe in pages} == {scheme}
    served = {port["targetPort"]: port["port"] for port in of_kind(objects, "Service", "worker")["spec"]["ports"]}
    assert served == {port["name"]: port["containerPort"] for port in container["ports"]}


def test_new_image_or_catalogue_changes_the_pods_but_not_the_selectors(chart: Chart) -> None:
    first = chart.render(MATRIX["outside"])
    values = {**MATRIX["outside"], "worker": {"image": {"tag": "9.9.9"}}}
    other = chart.render({**values, "catalogue": {"inline": values["catalogue"]["inline"] + "\nmax_ahead_s: 60\n"}})
    assert worker_pod(first)["metadata"]["annotations"] != worker_pod(other)["metadata"]["annotations"]
    selectors = [of_kind(objects, "StatefulSet")["spec"]["selector"]["matchLabels"] for objects in (first, other)]
    assert selectors[0] == selectors[1]
    # New versions of the chart must not change them either: the selector of a StatefulSet is immutable.
    assert selectors[0] == {
        "app.kubernetes.io/name": "glaim-stream",
        "app.kubernetes.io/instance": "demo",
        "app.kubernetes.io/component": "worker",
    }


def test_image_is_selected_by_digest_then_tag_then_chart_version(chart: Chart) -> None:
    def image(registry: str = "", **changes: str) -> str:
        own = "registry.example/glaim-stream/worker"
        values = merged(SMALLEST, {"image": {"registry": registry}, "worker": {"image": {"repository": own}}})
        values["triton"] = {"image": changes}
        return str(triton_pod(chart.render(values))["spec"]["containers"][0]["image"])

    digest = "sha256:" + "a" * 64
    chosen = image(repository="localhost:5000/triton")
    assert re.fullmatch(r"localhost:5000/triton:[0-9]+\.[0-9]+\.[0-9]+.*", chosen)
    assert image("registry.example/team/", tag="1.2.3") == "registry.example/team/glaim-stream/triton:1.2.3"
    assert image("registry.example", tag="1.2.3", digest=digest) == f"registry.example/glaim-stream/triton@{digest}"
