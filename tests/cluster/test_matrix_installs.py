"""Every set of values of the chart's tests is installed in the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.cluster import LocalCluster
from tests.cluster.prerequisites import prepare_cluster, prepare_namespace
from tests.cluster.references import assert_complete
from tests.cluster.release import Release
from tests.helm.matrix import MATRIX, merged

BEFORE = Path(__file__).parent / "charts" / "glaim-stream-0.2.0.tgz"
WORKLOADS = {"StatefulSet": "plant-glaim-stream-worker", "Deployment": "plant-glaim-stream-triton"}
CLASS_OF_VOLUMES = {"models": {"claim": {"storageClassName": ""}}, "training": {"work": {"storageClassName": ""}}}

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
    prepare_namespace(release)
    release.install({}, wait=False)
    for values in MATRIX.values():
        release.upgrade(merged(values, CLASS_OF_VOLUMES), wait=False)
    release.upgrade(CLASS_OF_VOLUMES, wait=False)
    assert release.one("apps/v1", "StatefulSet", "plant-glaim-stream-worker") is not None


@pytest.mark.usefixtures("prepared_cluster")
@pytest.mark.timeout(600)
def test_every_set_of_values_is_an_upgrade_of_the_chart_before_and_can_be_rolled_back(release: Release) -> None:
    """The chart before (charts/) is installed, upgraded to each set of values, and rolled back by helm."""
    prepare_namespace(release)
    release.install({}, wait=False, chart=BEFORE)
    kept = _fixed(release)
    assert set(kept) == {"StatefulSet", "Deployment"}
    for name, values in MATRIX.items():
        release.upgrade(merged(values, CLASS_OF_VOLUMES), wait=False)
        for kind, fields in _fixed(release).items():  # none with another full name
            assert fields == kept[kind], name
        run = release.helm("rollback")
        assert run.returncode == 0, name + run.stderr
        assert _fixed(release) == kept, name


def _fixed(release: Release) -> dict[str, object]:
    """What the API server refuses to change, by kind."""
    found = {kind: release.one("apps/v1", kind, name) for kind, name in WORKLOADS.items()}
    fields = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")
    return {kind: {field: each["spec"].get(field) for field in fields} for kind, each in found.items() if each}
