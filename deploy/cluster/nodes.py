"""Nodes and storage of the local cluster: a GPU node and a CPU node in each of three zones, and unclaimed volumes."""

from __future__ import annotations

from deploy.cluster.manifest import Object

ZONES = ("a", "b", "c")
# A GPU node has five GPUs, one of them partitioned into slices: the device plugin's "mixed" strategy.
GPUS_PER_NODE = 4
SLICE = "nvidia.com/mig-1g.10gb"
SLICES_PER_NODE = 7
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
_GPU_NODE = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "200Gi", "pods": "110"}
_CPU_NODE = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
STORAGE_CLASS = "shared"
_VOLUMES = 24


def nodes() -> list[Object]:
    """`gpu-a` to `gpu-c`, with the taint that GPU operators set, and `cpu-a` to `cpu-c`."""
    made = []
    for zone in ZONES:
        gpu = _GPU_NODE | {"nvidia.com/gpu": str(GPUS_PER_NODE), SLICE: str(SLICES_PER_NODE)}
        made.append(_node(f"gpu-{zone}", zone, gpu, {"nvidia.com/gpu.present": "true"}, [GPU_TAINT]))
        made.append(_node(f"cpu-{zone}", zone, _CPU_NODE, {}, []))
    return made


def storage() -> list[Object]:
    """A default storage class without provisioner, and volumes of that class which support every access mode.

    The controller manager binds claims to them. They are never mounted, because the kubelets are fake.
    """
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS, "annotations": default},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "Immediate",
    }
    return [storage_class, *(_volume(f"volume-{number}") for number in range(_VOLUMES))]


def _node(name: str, zone: str, capacity: dict[str, str], labels: dict[str, str], taints: list[Object]) -> Object:
    common = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": f"zone-{zone}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": common | labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": taints},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def _volume(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Ti"},
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": STORAGE_CLASS,
            "nfs": {"server": "storage.invalid", "path": f"/{name}"},
        },
    }
