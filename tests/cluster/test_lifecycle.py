"""Upgrade, broken release, rollback, and uninstallation."""

import pytest

from deploy.cluster.stages import NEVER_READY
from tests.cluster.release import Release

pytestmark = pytest.mark.timeout(300)


def images(release: Release, component: str) -> set[str]:
    """The images of a component's pods, without the registry."""
    found = {container["image"] for pod in release.pods(component) for container in pod["spec"]["containers"]}
    return {image.removeprefix("registry.example/team/") for image in found}


def identities(release: Release, component: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in release.pods(component)}


def test_new_image_is_rolled_out_and_back(release: Release) -> None:
    release.install({"worker": {"image": {"tag": "old"}}, "triton": {"image": {"tag": "old"}}})
    release.upgrade({"worker": {"image": {"tag": "new"}}, "triton": {"image": {"tag": "new"}}})
    release.until(lambda: images(release, "triton") == {"glaim-stream/triton:new"}, "Triton is new")
    assert images(release, "worker") == {"glaim-stream/worker:new"}
    run = release.helm("rollback", "1", "--wait", "--timeout", "120s")
    assert run.returncode == 0, run.stderr
    release.until(lambda: images(release, "triton") == {"glaim-stream/triton:old"}, "Triton is old again")
    assert images(release, "worker") == {"glaim-stream/worker:old"}
    assert len(release.ready("worker")) == 2


def test_upgrade_without_changes_restarts_no_pod(release: Release) -> None:
    release.install()
    before = identities(release, "")
    release.upgrade()
    assert identities(release, "") == before


def test_worker_setting_restarts_only_the_workers(release: Release) -> None:
    release.install()
    worker, triton = identities(release, "worker"), identities(release, "triton")
    release.upgrade({"worker": {"logLevel": "debug"}})
    assert not identities(release, "worker") & worker
    assert identities(release, "triton") == triton


def test_broken_release_stops_at_one_worker_and_can_be_rolled_back(release: Release) -> None:
    release.install({"worker": {"replicas": 3}})
    healthy = identities(release, "worker")
    broken = {"worker": {"replicas": 3, "podAnnotations": {NEVER_READY: "true"}}}
    release.upgrade(broken, wait=False)
    release.until(lambda: len(release.ready("worker")) == 2, "one worker is being replaced")
    release.until(lambda: len(release.pods("worker")) == 3, "its replacement exists")
    release.stays(lambda: len(healthy & identities(release, "worker")) == 2, "two workers keep running", 3.0)
    run = release.helm("rollback", "1", "--wait", "--timeout", "120s")
    assert run.returncode == 0, run.stderr + release.events()
    assert len(release.ready("worker")) == 3


def test_broken_triton_replaces_no_healthy_one(release: Release) -> None:
    release.install({"triton": {"replicas": 2}})
    healthy = identities(release, "triton")
    release.upgrade({"triton": {"replicas": 2, "podAnnotations": {NEVER_READY: "true"}}}, wait=False)
    release.until(lambda: len(release.pods("triton")) == 3, "a new Triton is started")
    release.stays(lambda: healthy <= identities(release, "triton"), "both healthy Tritons keep running", 3.0)


def test_uninstallation_leaves_nothing(release: Release) -> None:
    before = release.objects()
    release.install()
    assert release.objects() != before
    run = release.helm("uninstall", "--wait", "--timeout", "120s")
    assert run.returncode == 0, run.stderr
    release.until(lambda: not release.pods(), "the pods are gone")
    release.until(lambda: release.objects() == before, "nothing is left")


def test_chart_can_be_installed_again(release: Release) -> None:
    release.install()
    release.helm("uninstall", "--wait", "--timeout", "120s")
    release.install()
    assert len(release.ready("worker")) == 2


def test_two_releases_in_one_namespace_are_independent(release: Release) -> None:
    release.install()
    release.name = "other"
    release.install({"kafka": {"consumerGroup": "other"}})
    release.upgrade({"kafka": {"consumerGroup": "other"}, "worker": {"replicas": 3}})
    assert len(release.ready("worker")) == 3
    release.helm("uninstall", "--wait", "--timeout", "120s")
    release.name = "plant"
    assert len(release.ready("worker")) == 2
    assert release.all("apps/v1", "Deployment", "triton")
