"""The local control plane: it has the pinned version, enforces permissions, and ends with its owner."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT
from deploy.cluster import LocalCluster
from deploy.cluster.api import Api
from deploy.cluster.programs import kubernetes_version
from tests.cluster.release import until

pytestmark = pytest.mark.timeout(300)


def test_version_is_the_pinned_one(cluster: LocalCluster) -> None:
    """helm compares it with the chart's kubeVersion."""
    assert cluster.api.version() == kubernetes_version()


def test_each_component_has_only_its_permissions(cluster: LocalCluster) -> None:
    scheduler = Api(cluster.layout.kubeconfig("scheduler"))
    assert scheduler.listed("v1", "Node")
    with pytest.raises(Exception, match="cannot list resource") as error:
        scheduler.listed("v1", "Secret")
    assert getattr(error.value, "status", None) == 403


def test_cluster_ends_if_its_owner_is_killed(cluster: LocalCluster) -> None:
    del cluster  # the fixture builds the programs or skips the test
    owner = subprocess.Popen(
        [sys.executable, "-m", "deploy.cluster", "--no-crds"], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    home = None
    for line in owner.stdout:
        if found := re.search(r"KUBECONFIG=(\S+)/admin\.kubeconfig", line):
            home = Path(found[1])
            break
    assert home is not None
    assert len(processes_of(home)) >= 5
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    until(lambda: not processes_of(home) and not home.exists(), "its processes and its files are gone", 30.0)


def processes_of(home: Path) -> list[str]:
    """Command lines that contain the cluster's folder."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # the process has ended in the meantime
        if str(home) in line:
            found.append(line)
    return found
