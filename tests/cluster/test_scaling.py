"""Who sets the number of workers, when an autoscaler comes and goes."""

from __future__ import annotations

import pytest

from tests.cluster.release import Release

pytestmark = pytest.mark.cluster


def workers(release: Release) -> int:
    found = release.one("apps/v1", "StatefulSet", "plant-glaim-stream-worker")
    assert found is not None
    return int(found["spec"]["replicas"])


def test_handing_the_number_to_an_autoscaler_and_taking_it_back_stops_no_worker(release: Release) -> None:
    release.install({"worker": {"replicas": 3}})
    assert workers(release) == 3
    for kind in ("keda", "hpa"):
        release.upgrade({"autoscaling": {"kind": kind}})
        assert workers(release) == 3, "left out of the manifest, Kubernetes would have set 1"
    release.upgrade({"worker": {"replicas": 4}})
    assert workers(release) == 4
