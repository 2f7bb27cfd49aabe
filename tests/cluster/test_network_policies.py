"""Every pod of a release is under a policy, and the policies choose no pod of anybody else.

The fake nodes have no network, so nothing here is refused a connection; tests/helm reads the rules themselves.
"""

from __future__ import annotations

import pytest

from deploy.cluster.manifest import Object
from tests.cluster.release import Release, labels_of
from tests.helm.matrix import CONFIG

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

ALL: Object = {
    "models": {"source": "claim"},
    "training": {"enabled": True, "model": "plant-pump", "config": CONFIG.read_text()},
}


def chosen(policies: list[Object], labels: dict[str, str]) -> list[Object]:
    """The policies that a pod with these labels is under."""
    return [policy for policy in policies if policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()]


def test_whatever_runs_is_under_a_policy_of_both_directions(release: Release) -> None:
    release.install(ALL)
    policies = release.all("networking.k8s.io/v1", "NetworkPolicy")
    schedules = release.all("batch/v1", "CronJob")
    assert schedules
    templates = [schedule["spec"]["jobTemplate"]["spec"]["template"] for schedule in schedules]
    hooks = [hook for hook in release.manifest(hooks=True) if hook["kind"] == "Pod"]
    for pod in [*release.pods(), *templates, *hooks]:
        over = chosen(policies, dict(labels_of(pod)))
        assert {kind for policy in over for kind in policy["spec"]["policyTypes"]} == {"Ingress", "Egress"}


def test_another_releases_pods_are_under_none_of_them(release: Release) -> None:
    release.install()
    policies = release.all("networking.k8s.io/v1", "NetworkPolicy")
    release.name = "other"
    release.install({"kafka": {"consumerGroup": "other"}})
    assert release.pods()
    assert not [pod for pod in release.pods() if chosen(policies, dict(labels_of(pod)))]


def test_they_can_be_left_out(release: Release) -> None:
    release.install({"networkPolicy": {"enabled": False}})
    assert release.all("networking.k8s.io/v1", "NetworkPolicy") == []
