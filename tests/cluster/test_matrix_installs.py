"""Every set of values of the chart's tests is installed in the cluster."""

import shutil
from pathlib import Path

import pytest
import yaml

from deploy.cluster import LocalCluster
from tests.cluster.prerequisites import prepare_cluster, prepare_namespace
from tests.cluster.references import assert_complete
from tests.cluster.release import CHART, Release
from tests.helm.matrix import MATRIX, merged

WORKLOADS = {"StatefulSet": "plant-glaim-stream-worker", "Deployment": "plant-glaim-stream-triton"}
CLASS_OF_VOLUMES = {"models": {"claim": {"storageClassName": ""}}, "training": {"work": {"storageClassName": ""}}}

pytestmark = pytest.mark.timeout(300)


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
def test_every_set_of_values_is_an_upgrade_of_another_version_and_can_be_rolled_back(
    release: Release, tmp_path: Path
) -> None:
    """This chart under an earlier number is installed, upgraded to each set of values, and rolled back by helm.

    No version has been released yet. What a later one must not change is in tests/helm/test_chart_upgrades.py.
    """
    prepare_namespace(release)
    release.install({}, wait=False, chart=_earlier(tmp_path))
    kept = _fixed(release)
    assert set(kept) == {"StatefulSet", "Deployment"}
    for name, values in MATRIX.items():
        release.upgrade(merged(values, CLASS_OF_VOLUMES), wait=False)
        for kind, fields in _fixed(release).items():  # none with another full name
            assert fields == kept[kind], name
        run = release.helm("rollback")
        assert run.returncode == 0, name + run.stderr
        assert _fixed(release) == kept, name


def _earlier(folder: Path) -> Path:
    """A copy of the chart with an earlier version, and so with the images of that version."""
    copy = Path(shutil.copytree(CHART, folder / "chart"))
    about = yaml.safe_load((copy / "Chart.yaml").read_text())
    (copy / "Chart.yaml").write_text(yaml.safe_dump(about | {"version": "0.0.1", "appVersion": "0.0.1"}))
    return copy


def _fixed(release: Release) -> dict[str, object]:
    """What the API server refuses to change, by kind."""
    found = {kind: release.one("apps/v1", kind, name) for kind, name in WORKLOADS.items()}
    fields = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")
    return {kind: {field: each["spec"].get(field) for field in fields} for kind, each in found.items() if each}
