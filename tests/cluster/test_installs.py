"""What `helm install` makes where Pod Security `restricted` is enforced: every pod Ready, nothing dangling."""

from __future__ import annotations

import pytest

from deploy.cluster.api import Refused
from tests.cluster.references import is_whole
from tests.cluster.release import Release

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def test_one_value_installs_a_whole_system(release: Release) -> None:
    release.install()
    is_whole(release)
    assert {pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in release.pods()} == {"worker", "triton"}


def test_one_value_installs_it_where_no_custom_resource_is_known(bare_release: Release) -> None:
    bare_release.install()
    is_whole(bare_release)


def test_the_workers_names_outlive_their_pods(release: Release) -> None:
    """They are the workers' names to Kafka: a pod that comes back takes its partitions up again."""
    release.install({"worker": {"replicas": 3}})
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in release.pods("worker")}
    assert sorted(before) == [f"plant-glaim-stream-worker-{number}" for number in range(3)]
    release.api.delete("v1", "Pod", "plant-glaim-stream-worker-1", release.namespace)

    def back() -> bool:
        after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in release.ready("worker")}
        changed = {name for name, uid in after.items() if before.get(name) != uid}
        return set(after) == set(before) and changed == {"plant-glaim-stream-worker-1"}

    release.until(back, "worker 1 is back under its name")


def test_the_namespace_does_enforce_the_policy(release: Release) -> None:
    """Else every other test here proves nothing about it."""
    bad = {"containers": [{"name": "root", "image": "root", "securityContext": {"runAsUser": 0}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root"}, "spec": bad}
    with pytest.raises(Refused, match='violates PodSecurity "restricted'):
        release.api.create(pod, release.namespace)


def test_no_pod_is_given_a_token_of_kubernetes(release: Release) -> None:
    release.install()
    volumes = [volume for pod in release.pods() for volume in pod["spec"].get("volumes", [])]
    assert not [volume for volume in volumes if "serviceAccountToken" in str(volume)]
