"""What the API server refuses to change is, for every set of values, as in the charts before: an upgrade is possible.

The fields below are those of chart 0.3.0. Where one has to change, the objects must be deleted first, which
takes a step in UPGRADING.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.helm.matrix import APIS, MATRIX
from tests.helm.rendered import Object

if TYPE_CHECKING:
    from tests.helm.conftest import Chart

pytestmark = pytest.mark.timeout(1800)  # the first test may have to build helm

FIXED = {
    "StatefulSet": ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates"),
    "Deployment": ("selector",),
    "Service": ("clusterIP",),
}


def fixed_fields(objects: list[Object]) -> dict[str, Object]:
    """The fields of each object that cannot be changed, by its kind and name."""
    return {
        f"{each['kind']}/{each['metadata']['name']}": {name: each["spec"].get(name) for name in FIXED[each["kind"]]}
        for each in objects
        if each["kind"] in FIXED
    }


def expected(fullname: str) -> dict[str, Object]:
    """These fields for a release `demo`, by its full name."""

    def selector(component: str) -> Object:
        labels = {"name": "glaim-stream", "instance": "demo", "component": component}
        return {"matchLabels": {f"app.kubernetes.io/{key}": value for key, value in labels.items()}}

    worker, triton = f"{fullname}-worker", f"{fullname}-triton"
    return {
        f"StatefulSet/{worker}": {
            "selector": selector("worker"),
            "serviceName": worker,
            "podManagementPolicy": "Parallel",
            "volumeClaimTemplates": None,
        },
        f"Deployment/{triton}": {"selector": selector("triton")},
        f"Service/{worker}": {"clusterIP": "None"},
        f"Service/{triton}": {"clusterIP": "None"},
    }


@pytest.mark.parametrize("name", MATRIX)
def test_no_value_changes_what_cannot_be_changed(chart: Chart, name: str) -> None:
    found = fixed_fields(chart.render(MATRIX[name], APIS.get(name, ())))
    fullname = str(MATRIX[name].get("fullnameOverride", "demo-glaim-stream"))[:43].rstrip("-")  # as the chart does
    wanted = expected(fullname)
    if not MATRIX[name].get("triton", {}).get("enabled", True):
        wanted = {key: fields for key, fields in wanted.items() if not key.endswith("-triton")}
    assert found == wanted
