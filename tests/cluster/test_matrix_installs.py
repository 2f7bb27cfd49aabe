"""Every set of values of the chart's tests is installed in the cluster."""

from __future__ import annotations

import pytest

from deploy.cluster import LocalCluster
from tests.cluster.prerequisites import prepare_cluster, prepare_namespace
from tests.cluster.references import assert_complete
from tests.cluster.release import Release
from tests.helm.matrix import MATRIX, merged

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="session")
def prepared_cluster(cluster: LocalCluster) -> None:
    prepare_cluster(cluster.api)


@pytest.mark.usefixtures("prepared_cluster")
@pytest.mark.parametrize("name", MATRIX)
def test_values_install_and_uninstall(release: Release, name: str) -> None:
    prepare_namespace(release)
    before = release.objects()
    release.install(MATRIX[name])
    assert_complete(release)
    run = release.helm("uninstall", "--wait", "--timeout", "120s")
    assert run.returncode == 0, run.stderr
    kept = {"PersistentVolumeClaim/plant-glaim-stream-models"}  # trained models are kept
    release.until(lambda: set(release.objects()) - kept == set(before), f"only {sorted(kept)} may be left")


@pytest.mark.usefixtures("prepared_cluster")
def test_one_release_is_upgraded_through_all_values_and_back(release: Release) -> None:
    """The API server would refuse a changed selector, claim template or cluster address.

    Volumes alone stay as they were made: their class cannot be changed by anybody.
    """
    class_of_volumes = {"models": {"claim": {"storageClassName": ""}}, "training": {"work": {"storageClassName": ""}}}
    prepare_namespace(release)
    release.install({}, wait=False)
    for values in MATRIX.values():
        release.upgrade(merged(values, class_of_volumes), wait=False)
    release.upgrade(class_of_volumes, wait=False)
    assert release.one("apps/v1", "StatefulSet", "plant-glaim-stream-worker") is not None
