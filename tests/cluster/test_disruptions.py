"""What a drain may take away: the eviction that must be refused is, and the other is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deploy.cluster.api import Refused
from deploy.cluster.stages import NEVER_READY
from tests.cluster.release import Release

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.mark.parametrize("component", ["worker", "triton"])
def test_one_may_go_and_the_next_must_wait(release: Release, cordon: Callable[..., None], component: str) -> None:
    release.install({component: {"replicas": 2}})
    first, second = (pod["metadata"]["name"] for pod in release.pods(component))
    release.until(lambda: release.disruptions_allowed(component) == 1, "the budget has counted its pods")
    cordon()  # so that no replacement comes up in between, as when a cluster has no room
    release.api.evict(first, release.namespace)
    with pytest.raises(Refused, match="disruption budget") as refusal:
        release.api.evict(second, release.namespace)
    assert refusal.value.status == 429
    cordon(False)
    release.until(lambda: len(release.ready(component)) == 2, "the replacement is Ready", 90.0)
    release.until(lambda: release.disruptions_allowed(component) == 1, "the budget allows another")
    release.api.evict(release.pods(component)[-1]["metadata"]["name"], release.namespace)


def test_workers_that_cannot_become_ready_do_not_block_a_drain(release: Release) -> None:
    """They do no work, so there is nothing that a budget could save."""
    release.install({"worker": {"podAnnotations": {NEVER_READY: "true"}}}, wait=False)
    release.until(lambda: len([pod for pod in release.pods("worker") if "podIP" in pod["status"]]) == 2, "both run")
    assert release.disruptions_allowed("worker") == 0
    for pod in release.pods("worker"):
        release.api.evict(pod["metadata"]["name"], release.namespace)


def test_a_single_replica_may_be_drained(release: Release) -> None:
    """A budget that allowed none would block every drain for ever."""
    release.install({"worker": {"replicas": 1}, "triton": {"replicas": 1}})
    for component in ("worker", "triton"):
        (pod,) = release.pods(component)
        release.until(lambda of=component: release.disruptions_allowed(of) == 1, "the budget has counted its pod")
        release.api.evict(pod["metadata"]["name"], release.namespace)


def test_without_budgets_nothing_is_refused(release: Release, cordon: Callable[..., None]) -> None:
    release.install({"podDisruptionBudget": {"enabled": False}})
    cordon()
    for pod in release.pods("worker"):
        release.api.evict(pod["metadata"]["name"], release.namespace)
    assert release.all("policy/v1", "PodDisruptionBudget") == []
