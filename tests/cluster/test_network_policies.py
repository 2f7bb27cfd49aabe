"""NetworkPolicies select every pod of a release and no other pod.

The fake nodes have no network, so no connections are tested here; tests/helm evaluates the rules.
"""

import pytest

from deploy.cluster.manifest import Object
from tests.cluster.release import Release, labels_of
from tests.helm.matrix import CONFIG

pytestmark = pytest.mark.timeout(300)

ALL: Object = {
    "models": {"source": "claim"},
    "training": {"enabled": True, "model": "plant-pump", "config": CONFIG.read_text()},
}


def selecting(policies: list[Object], labels: dict[str, str]) -> list[Object]:
    """The policies that select a pod with these labels."""
    return [policy for policy in policies if policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()]


def test_policies_for_both_directions_select_every_pod(release: Release) -> None:
    release.install(ALL)
    policies = release.all("networking.k8s.io/v1", "NetworkPolicy")
    schedules = release.all("batch/v1", "CronJob")
    assert schedules
    templates = [schedule["spec"]["jobTemplate"]["spec"]["template"] for schedule in schedules]
    hooks = [hook for hook in release.manifest(hooks=True) if hook["kind"] == "Pod"]
    for pod in [*release.pods(), *templates, *hooks]:
        over = selecting(policies, dict(labels_of(pod)))
        assert {kind for policy in over for kind in policy["spec"]["policyTypes"]} == {"Ingress", "Egress"}


def test_policies_do_not_select_pods_of_another_release(release: Release) -> None:
    release.install()
    policies = release.all("networking.k8s.io/v1", "NetworkPolicy")
    release.name = "other"
    release.install({"kafka": {"consumerGroup": "other"}})
    assert release.pods()
    assert not [pod for pod in release.pods() if selecting(policies, dict(labels_of(pod)))]


def test_policies_can_be_disabled(release: Release) -> None:
    release.install({"networkPolicy": {"enabled": False}})
    assert release.all("networking.k8s.io/v1", "NetworkPolicy") == []
