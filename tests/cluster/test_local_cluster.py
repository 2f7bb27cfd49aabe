"""The local control plane itself: it is the version that is pinned, its rights are on, and it ends with its owner."""

from __future__ import annotations

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

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def test_it_is_the_version_that_is_pinned(cluster: LocalCluster) -> None:
    """helm compares it with the chart's kubeVersion."""
    assert cluster.api.version() == kubernetes_version()


def test_each_part_has_its_own_rights_and_no_more(cluster: LocalCluster) -> None:
    scheduler = Api(cluster.layout.kubeconfig("scheduler"))
    assert scheduler.listed("v1", "Node")
    with pytest.raises(Exception, match="cannot list resource") as refused:
        scheduler.listed("v1", "Secret")
    assert getattr(refused.value, "status", None) == 403


def test_nothing_of_it_outlives_an_owner_that_is_killed(cluster: LocalCluster) -> None:
    del cluster  # asked for so that the programs are there, or the test is skipped
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
    """Command lines that name the cluster's folder."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended since
        if str(home) in line:
            found.append(line)
    return found
