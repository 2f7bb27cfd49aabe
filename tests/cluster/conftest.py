"""Fixtures with real clusters to install the chart into; skipped if none can be built."""

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
    """A cluster with the custom resources of the Prometheus operator and KEDA."""
    yield from _running(custom_resources=True)


@pytest.fixture(scope="session")
def bare_cluster() -> Iterator[LocalCluster]:
    """A cluster without custom resources."""
    yield from _running(custom_resources=False)


@pytest.fixture(scope="session")
def helm() -> Path:
    """The path of helm."""
    try:
        return find_helm()
    except HelmUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def release(cluster: LocalCluster, helm: Path, tmp_path: Path) -> Iterator[Release]:
    """A release in a new namespace of the cluster; nothing is installed yet. The namespace is deleted afterwards."""
    with Release(cluster, helm, tmp_path) as made:
        yield made


@pytest.fixture
def bare_release(bare_cluster: LocalCluster, helm: Path, tmp_path: Path) -> Iterator[Release]:
    """The same in the cluster without custom resources."""
    with Release(bare_cluster, helm, tmp_path) as made:
        yield made


@pytest.fixture
def cordon(cluster: LocalCluster) -> Iterator[Callable[[], Any]]:
    """Make every node unschedulable, as an administrator does before a drain; undone afterwards."""

    def set_unschedulable(unschedulable: bool = True) -> None:
        for node in cluster.api.listed("v1", "Node"):
            cluster.api.patch("v1", "Node", node["metadata"]["name"], {"spec": {"unschedulable": unschedulable}})

    yield set_unschedulable
    set_unschedulable(False)
