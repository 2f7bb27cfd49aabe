"""`helm install` where Pod Security `restricted` is enforced: every pod is Ready and every reference exists."""

import pytest

from deploy.cluster.api import RequestRejected
from tests.cluster.references import assert_complete
from tests.cluster.release import Release

pytestmark = pytest.mark.timeout(300)


def test_one_value_installs_a_complete_system(release: Release) -> None:
    release.install()
    assert_complete(release)
    assert {pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in release.pods()} == {"worker", "triton"}


def test_one_value_installs_it_without_custom_resources(bare_release: Release) -> None:
    bare_release.install()
    assert_complete(bare_release)


def test_replaced_worker_keeps_its_name(release: Release) -> None:
    """The name identifies the worker to Kafka, so the new pod gets the partitions of the old one."""
    release.install({"worker": {"replicas": 3}})
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in release.pods("worker")}
    assert sorted(before) == [f"plant-glaim-stream-worker-{number}" for number in range(3)]
    release.api.delete("v1", "Pod", "plant-glaim-stream-worker-1", release.namespace)

    def back() -> bool:
        after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in release.ready("worker")}
        changed = {name for name, uid in after.items() if before.get(name) != uid}
        return set(after) == set(before) and changed == {"plant-glaim-stream-worker-1"}

    release.until(back, "worker 1 is back under its name")


def test_namespace_enforces_the_policy(release: Release) -> None:
    """Otherwise the other tests would prove nothing about it."""
    bad = {"containers": [{"name": "root", "image": "root", "securityContext": {"runAsUser": 0}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root"}, "spec": bad}
    with pytest.raises(RequestRejected, match='violates PodSecurity "restricted'):
        release.api.create(pod, release.namespace)
