"""Real clusters to install the chart into; skips with the reason where none can be built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.cluster import ClusterUnavailable, LocalCluster
from deploy.helm import HelmUnavailable, find_helm
from tests.cluster.release import Release

Install = Callable[..., Release]


def _running(custom_resources: bool) -> Iterator[LocalCluster]:
    try:
        cluster = LocalCluster(custom_resources=custom_resources)
        with cluster:
            yield cluster
    except ClusterUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """A cluster on which the Prometheus operator's and KEDA's resources are known."""
    yield from _running(custom_resources=True)


@pytest.fixture(scope="session")
def bare_cluster() -> Iterator[LocalCluster]:
    """A cluster that knows nothing but Kubernetes itself."""
    yield from _running(custom_resources=False)


@pytest.fixture(scope="session")
def helm() -> Path:
    """The program."""
    try:
        return find_helm()
    except HelmUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def release(cluster: LocalCluster, helm: Path, tmp_path: Path) -> Iterator[Release]:
    """A namespace of its own in the cluster, gone afterwards, with nothing installed yet."""
    with Release(cluster, helm, tmp_path) as made:
        yield made


@pytest.fixture
def bare_release(bare_cluster: LocalCluster, helm: Path, tmp_path: Path) -> Iterator[Release]:
    """The same where no custom resource is known."""
    with Release(bare_cluster, helm, tmp_path) as made:
        yield made


@pytest.fixture
def cordon(cluster: LocalCluster) -> Iterator[Callable[[], Any]]:
    """Closes every node to new pods, as an administrator does before a drain; opened again afterwards."""

    def close(closed: bool = True) -> None:
        for node in cluster.api.listed("v1", "Node"):
            cluster.api.patch("v1", "Node", node["metadata"]["name"], {"spec": {"unschedulable": closed}})

    yield close
    close(False)
