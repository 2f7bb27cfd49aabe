"""Files, nodes and pinned versions of the local cluster; tests/cluster starts it."""

import re
import stat
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from deploy import gotools
from deploy.cluster import __main__ as command
from deploy.cluster.keys import USERS, write_kubeconfig, write_signing_key, write_tokens
from deploy.cluster.nodes import GPU_TAINT, STORAGE_CLASS, nodes, storage
from deploy.cluster.programs import ETCD_SOURCE, KUBERNETES_SOURCE, kubernetes_version


def test_staging_modules_have_the_version_of_kubernetes() -> None:
    text = (KUBERNETES_SOURCE / "go.mod").read_text()
    replaced = re.findall(r"^\s(k8s\.io/\S+) => (\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) > 25
    assert {version for _, _, version in replaced} == {kubernetes_version().replace("v1.", "v0.")}
    assert all(name == target for name, target, _ in replaced)


def test_every_module_is_pinned_by_a_hash() -> None:
    for source in (KUBERNETES_SOURCE, ETCD_SOURCE):
        sums = (source / "go.sum").read_text()
        required = re.findall(r"^(?:require )?\s*([a-z][^\s()]+) (v\S+)", (source / "go.mod").read_text(), re.MULTILINE)
        assert required
        unpinned = [f"{module} {version}" for module, version in required if f"{module} {version} h1:" not in sums]
        assert not [module for module in unpinned if not module.startswith("k8s.io/")]  # these are replaced


def test_token_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    tokens = write_tokens(tmp_path / "tokens.csv")
    assert set(tokens) == set(USERS)
    assert len(set(tokens.values())) == len(USERS)
    write_kubeconfig(tmp_path / "config", "https://127.0.0.1:1", tmp_path / "ca.crt", "admin", tokens["admin"])
    write_signing_key(tmp_path / "key")
    for file in ("tokens.csv", "config", "key"):
        assert stat.S_IMODE((tmp_path / file).stat().st_mode) == 0o600
    config = yaml.safe_load((tmp_path / "config").read_text())
    assert config["users"] == [{"name": "admin", "user": {"token": tokens["admin"]}}]
    assert load_pem_private_key((tmp_path / "key").read_bytes(), None).key_size == 2048


def test_half_the_nodes_have_gpus_and_a_taint() -> None:
    gpu = [node for node in nodes() if "nvidia.com/gpu" in node["status"]["capacity"]]
    assert len(gpu) == 3 == len(nodes()) - len(gpu)
    assert all(node["spec"]["taints"] == [GPU_TAINT] for node in gpu)
    assert len({node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in gpu}) == 3


def test_volumes_have_the_default_storage_class() -> None:
    storage_class, *volumes = storage()
    assert storage_class["metadata"]["name"] == STORAGE_CLASS
    assert volumes
    assert {volume["spec"]["storageClassName"] for volume in volumes} == {STORAGE_CLASS}


def test_command_reports_a_missing_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GLAIM_CACHE", str(tmp_path / "cache"))
    nowhere = tmp_path / "go-wheel.txt"
    nowhere.write_text(f"no-such-toolchain @ file://{tmp_path}/no_such_toolchain-1.0-py3-none-any.whl\n")
    monkeypatch.setattr(gotools, "WHEEL_REQUIREMENTS", nowhere)
    assert command.main(["--fetch-only"]) == 3
    assert "cannot run here: expected go" in capsys.readouterr().out
