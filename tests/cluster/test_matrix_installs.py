"""Every set of values that the chart's other tests render is installed for real."""

from __future__ import annotations

import pytest

from deploy.cluster import LocalCluster
from tests.cluster.references import is_whole
from tests.cluster.release import Release
from tests.cluster.surroundings import furnish, furnish_cluster
from tests.helm.matrix import MATRIX

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="session")
def furnished(cluster: LocalCluster) -> None:
    furnish_cluster(cluster.api)


@pytest.mark.usefixtures("furnished")
@pytest.mark.parametrize("name", MATRIX)
def test_it_installs_and_uninstalls(release: Release, name: str) -> None:
    furnish(release)
    before = release.left_over()
    release.install(MATRIX[name])
    is_whole(release)
    run = release.helm("uninstall", "--wait", "--timeout", "120s")
    assert run.returncode == 0, run.stderr
    kept = {"PersistentVolumeClaim/plant-glaim-stream-models"}  # trained models are worth more than a release

    release.until(lambda: set(release.left_over()) - kept == set(before), f"only {sorted(kept)} may be left")
