"""The number of workers when an autoscaler is enabled and disabled."""

from tests.cluster.release import Release


def workers(release: Release) -> int:
    found = release.one("apps/v1", "StatefulSet", "plant-glaim-stream-worker")
    assert found is not None
    return int(found["spec"]["replicas"])


def test_enabling_and_disabling_an_autoscaler_stops_no_worker(release: Release) -> None:
    release.install({"worker": {"replicas": 3}})
    assert workers(release) == 3
    for kind in ("keda", "hpa"):
        release.upgrade({"autoscaling": {"kind": kind}})
        assert workers(release) == 3, "without replicas in the manifest, Kubernetes sets 1"
    release.upgrade({"worker": {"replicas": 4}})
    assert workers(release) == 4
