"""Prometheus and its tools come from PATH, else from Debian's packages, else an error is raised."""

from pathlib import Path

import pytest

from deploy import prometheus
from deploy.cache import cache_dir
from deploy.errors import FetchError
from deploy.fetch import CANNOT_RUN_HERE
from deploy.prometheus_install import PrometheusUnavailable, Tools, find_alertmanager, find_prometheus


def program(directory: Path, name: str, script: str = "exit 0") -> Path:
    file = directory / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty PATH and an empty cache."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setenv("GLAIM_CACHE", str(tmp_path / "cache"))
    return directory


def test_programs_on_path_are_used(path: Path) -> None:
    prometheus_there = Tools(program(path, "prometheus"), program(path, "promtool"))
    assert find_prometheus() == prometheus_there
    alertmanager_there = Tools(program(path, "prometheus-alertmanager"), program(path, "amtool"))
    assert find_alertmanager() == alertmanager_there


def test_error_without_apt_names_what_is_missing(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PrometheusUnavailable, match="found no apt-get and no dpkg"):
        find_prometheus()
    assert prometheus.main(["--fetch-only"]) == CANNOT_RUN_HERE
    assert "cannot run here" in capsys.readouterr().out


def test_packages_are_fetched_once_and_package_lists_if_absent(path: Path, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    # This apt downloads nothing without package lists, as in a container in which `apt-get update` has never run.
    program(
        path,
        "apt-get",
        f'echo "$@" >> {calls}; case "$*" in *Dir::State*download*|*download*Dir::State*) : > one.deb;; '
        "*update*) ;; *) exit 100;; esac",
    )
    program(path, "dpkg", '/bin/mkdir -p "$3/usr/bin"; : > "$3/usr/bin/promtool"')
    first = find_prometheus()
    assert first.tool.exists()
    lines = calls.read_text().splitlines()
    assert len(lines) == 3
    assert "update" in lines[1]
    assert find_prometheus() == first
    assert calls.read_text().splitlines() == lines


def test_failed_download_reports_the_output_of_apt_and_leaves_nothing(path: Path) -> None:
    program(path, "apt-get", "echo no route to the archive >&2; exit 100")
    program(path, "dpkg")
    with pytest.raises(FetchError, match="no route to the archive"):
        find_prometheus()
    assert [file.name for file in (cache_dir() / "prometheus").iterdir()] == [".lock"]
