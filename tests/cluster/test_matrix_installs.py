"""Every set of values of the chart's tests is installed in the cluster."""

from __future__ import annotations

import pytest

from deploy.cluster import LocalCluster
from tests.cluster.prerequisites import prepare_cluster, prepare_namespace
from tests.cluster.references import assert_complete
from tests.cluster.release import Release
from tests.helm.matrix import MATRIX

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
