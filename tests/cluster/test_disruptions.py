"""Drains: the disruption budgets allow and reject the right evictions."""

from collections.abc import Callable

import pytest

from deploy.cluster.api import RequestRejected
from deploy.cluster.stages import NEVER_READY
from tests.cluster.release import Release

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("component", ["worker", "triton"])
def test_second_eviction_waits_for_the_replacement(
    release: Release, cordon: Callable[..., None], component: str
) -> None:
    release.install({component: {"replicas": 2}})
    first, second = (pod["metadata"]["name"] for pod in release.pods(component))
    release.until(lambda: release.disruptions_allowed(component) == 1, "the budget has counted its pods")
    cordon()  # no replacement can start, as in a full cluster
    release.api.evict(first, release.namespace)
    with pytest.raises(RequestRejected, match="disruption budget") as rejection:
        release.api.evict(second, release.namespace)
    assert rejection.value.status == 429
    cordon(False)
    release.until(lambda: len(release.ready(component)) == 2, "the replacement is Ready", 90.0)
    release.until(lambda: release.disruptions_allowed(component) == 1, "the budget allows another")
    release.api.evict(release.pods(component)[-1]["metadata"]["name"], release.namespace)


def test_workers_that_are_not_ready_do_not_block_a_drain(release: Release) -> None:
    """They do no work, so a budget has nothing to protect."""
    release.install({"worker": {"podAnnotations": {NEVER_READY: "true"}}}, wait=False)
    release.until(lambda: len([pod for pod in release.pods("worker") if "podIP" in pod["status"]]) == 2, "both run")
    assert release.disruptions_allowed("worker") == 0
    for pod in release.pods("worker"):
        release.api.evict(pod["metadata"]["name"], release.namespace)


def test_single_replica_can_be_drained(release: Release) -> None:
    """A budget that allowed no disruption would block every drain."""
    release.install({"worker": {"replicas": 1}, "triton": {"replicas": 1}})
    for component in ("worker", "triton"):
        (pod,) = release.pods(component)
        release.until(lambda of=component: release.disruptions_allowed(of) == 1, "the budget has counted its pod")
        release.api.evict(pod["metadata"]["name"], release.namespace)


def test_without_budgets_every_eviction_is_allowed(release: Release, cordon: Callable[..., None]) -> None:
    release.install({"podDisruptionBudget": {"enabled": False}})
    cordon()
    for pod in release.pods("worker"):
        release.api.evict(pod["metadata"]["name"], release.namespace)
    assert release.all("policy/v1", "PodDisruptionBudget") == []
