"""helm is the machine's own, or built once, or an error that says what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy import helm
from deploy.cache import cache_dir
from deploy.errors import FetchError
from deploy.helm import HelmUnavailable, find_helm


def program(directory: Path, name: str, script: str) -> Path:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it, and an empty cache."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setenv("GLAIM_CACHE", str(tmp_path / "cache"))
    return directory


def test_a_helm_on_path_is_taken(path: Path) -> None:
    helm_on_path = program(path, "helm", "exit 0")
    assert find_helm() == helm_on_path


def test_without_helm_and_go_the_error_names_both(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HelmUnavailable, match="expected helm on PATH, or go"):
        find_helm()
    assert helm.main(["--fetch-only"]) == helm.CANNOT_RUN_HERE
    assert "cannot be had here" in capsys.readouterr().out


def test_it_is_built_once_and_kept(path: Path, tmp_path: Path) -> None:
    program(path, "go", f'echo "$@" >> {tmp_path}/builds; echo built > "$GOBIN/helm"')
    built = find_helm()
    assert find_helm() == built
    assert built.read_text() == "built\n"
    assert (tmp_path / "builds").read_text() == f"install {helm.PACKAGE}@{helm.VERSION}\n"
    assert [file.name for file in built.parent.iterdir() if file.name != ".lock"] == ["helm"]


def test_a_failed_build_says_what_the_compiler_said_and_leaves_nothing(path: Path) -> None:
    program(path, "go", "echo no such module >&2; exit 1")
    with pytest.raises(FetchError, match="no such module"):
        find_helm()
    assert not list((cache_dir() / "helm" / helm.VERSION).glob("helm*"))
