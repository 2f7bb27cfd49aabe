"""The scheduled audit: off by default, and a Job with its own limits, scratch space and network policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.helm.matrix import SECURED, SMALLEST, merged
from tests.helm.rendered import containers, environment, of_kind

if TYPE_CHECKING:
    from tests.helm.conftest import Chart

pytestmark = pytest.mark.timeout(1800)

RESOURCES = {"requests": {"cpu": "100m", "memory": "300Mi"}, "limits": {"memory": "700Mi"}}


def test_there_is_no_audit_unless_it_is_enabled(chart: Chart) -> None:
    assert not [each for each in chart.render(SMALLEST) if each["metadata"]["name"].endswith("-audit")]


def test_the_audit_runs_on_its_schedule_with_its_own_limits(chart: Chart) -> None:
    audit = {"enabled": True, "schedule": "5 * * * *", "since": "3h", "resources": RESOURCES, "scratchSizeLimit": "9Gi"}
    objects = chart.render(merged(merged(SMALLEST, SECURED), {"audit": audit, "networkPolicy": {"enabled": True}}))
    job = of_kind(objects, "CronJob")
    assert job["spec"]["schedule"] == "5 * * * *"
    assert job["spec"]["jobTemplate"]["spec"]["backoffLimit"] == 0
    pod = job["spec"]["jobTemplate"]["spec"]["template"]
    container = next(each for each in containers(pod) if each["name"] == "audit")
    assert container["command"] == ["glaim-stream", "audit", "--since", "3h", "--temp-folder", "/scratch"]
    assert container["resources"] == RESOURCES
    assert {"name": "scratch", "emptyDir": {"sizeLimit": "9Gi"}} in pod["spec"]["volumes"]
    assert {"name": "scratch", "mountPath": "/scratch"} in container["volumeMounts"]
    mounted = {each["name"] for each in container["volumeMounts"]}
    assert mounted <= {each["name"] for each in pod["spec"]["volumes"]}
    assert {"GLAIM_KAFKA", "GLAIM_CATALOGUE", "GLAIM_CONSUMER_GROUP"} <= environment(container).keys()
    labels = pod["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == "audit"
    policy = of_kind(objects, "NetworkPolicy", "audit")
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["spec"]["egress"]
