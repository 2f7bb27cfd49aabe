"""Placement of the pods by the scheduler."""

from collections import Counter

import pytest

from deploy.cluster.nodes import GPUS_PER_NODE, SLICE, ZONES
from tests.cluster.release import Release, conditions_of

pytestmark = pytest.mark.timeout(300)

GPU_NODES = {f"gpu-{zone}" for zone in ZONES}
CPU_NODES = {f"cpu-{zone}" for zone in ZONES}
# A node label, so that zones and hosts of other nodes do not count in the spread.
GPU_ONLY = {"nodeSelector": {"nvidia.com/gpu.present": "true"}}


def test_triton_runs_on_gpu_nodes_and_workers_on_others(release: Release) -> None:
    release.install({"triton": {"replicas": 3}, "worker": {"replicas": 3}})
    assert set(release.nodes("triton")) == GPU_NODES
    assert set(release.nodes("worker")) == CPU_NODES


def test_required_spread_distributes_tritons_evenly_over_zones(release: Release) -> None:
    spread = {"zones": "DoNotSchedule", "hosts": "DoNotSchedule"}
    release.install({"triton": {"replicas": 7, "spread": spread, **GPU_ONLY}})
    assert sorted(Counter(release.nodes("triton")).values()) == [2, 2, 3]


def test_roll_out_keeps_the_spread(release: Release) -> None:
    """Old pods are not counted; otherwise the new pods would crowd in zones with few old ones."""
    values = {"replicas": 3, "spread": {"zones": "DoNotSchedule", "hosts": "DoNotSchedule"}, **GPU_ONLY}
    release.install({"triton": values})
    release.upgrade({"triton": values | {"image": {"tag": "next"}}})
    release.until(lambda: len(release.pods("triton")) == 3, "the old Tritons are gone")
    assert set(release.nodes("triton")) == GPU_NODES


def test_triton_without_a_free_gpu_stays_pending_with_a_reason(release: Release) -> None:
    gpus = GPUS_PER_NODE * len(GPU_NODES)
    release.install({"triton": {"replicas": gpus + 1}}, wait=False)
    release.until(lambda: len(release.ready("triton")) == gpus, "every GPU has its Triton")
    (waiting,) = (pod for pod in release.pods("triton") if "nodeName" not in pod["spec"])
    assert waiting["status"]["phase"] == "Pending"
    assert conditions_of(waiting)["PodScheduled"] == "False"
    assert "Insufficient nvidia.com/gpu" in str(waiting["status"]["conditions"])
    assert len(release.ready("worker")) == 2


def test_cpu_triton_needs_no_gpu_node(release: Release) -> None:
    release.install({"triton": {"device": "cpu", "replicas": 2}})
    assert set(release.nodes("triton")) <= CPU_NODES | GPU_NODES
    for pod in release.pods("triton"):
        assert "nvidia.com" not in str(pod["spec"]["containers"][0]["resources"])
    release.upgrade({"triton": {"device": "cpu", "replicas": 2, "tolerations": []}})
    release.until(lambda: set(release.nodes("triton")) <= CPU_NODES, "no Triton is on a GPU node")


def test_triton_uses_slices_of_a_gpu(release: Release) -> None:
    """With MIG there can be more Tritons than whole GPUs, and the whole GPUs stay free."""
    more = GPUS_PER_NODE * len(GPU_NODES) + 2
    release.install({"triton": {"replicas": more, "gpu": {"resource": SLICE}}})
    assert Counter(release.nodes("triton")).keys() == GPU_NODES
    release.upgrade({"triton": {"replicas": GPUS_PER_NODE}})
    assert len(release.ready("triton")) == GPUS_PER_NODE


def test_required_spread_puts_workers_on_different_nodes(release: Release) -> None:
    release.install({"worker": {"replicas": 4, "spread": {"hosts": "DoNotSchedule", "zones": "DoNotSchedule"}}})
    assert sorted(Counter(release.nodes("worker")).values()) == [1, 1, 2]
