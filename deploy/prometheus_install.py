"""Brings Prometheus and Alertmanager with their tools: those on PATH, else Debian's Prometheus and our own build.

Each comes the way that works without root. Debian's package of Prometheus runs from anywhere; that of Alertmanager
wants a template below /usr/share. Alertmanager builds with `go install`, once, in some two minutes of two cores;
Prometheus does not, for its module excludes versions of others. apt checks Debian's signatures, Go its checksums.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.cache import cache_dir, exclusive
from deploy.errors import DeployError, FetchError
from deploy.gotools import build

PACKAGE = "prometheus"
ALERTMANAGER_VERSION = "v0.28.1"
ALERTMANAGER = "github.com/prometheus/alertmanager/cmd/"
_TIMEOUT_S = 300


class PrometheusUnavailable(DeployError):
    """No Prometheus on this machine, and no apt to fetch Debian's with."""


@dataclass(frozen=True)
class Tools:
    """Where a server and its tool are: Prometheus and promtool, or Alertmanager and amtool."""

    server: Path
    tool: Path


def find_prometheus() -> Tools:
    """Prometheus and promtool: on PATH, else unpacked earlier, else Debian's fetched now (19 MB, some seconds).

    Raises:
        PrometheusUnavailable: they are not there, and this machine has no apt-get and dpkg to fetch them with.
        FetchError: apt could not fetch them; the message ends with what it said.
    """
    server, tool = shutil.which("prometheus"), shutil.which("promtool")
    if server and tool:
        return Tools(Path(server), Path(tool))
    home = cache_dir() / "prometheus"
    unpacked = home / "debian"
    with exclusive(home / ".lock"):
        if not unpacked.exists():
            _unpack(unpacked)
    return Tools(unpacked / "usr" / "bin" / "prometheus", unpacked / "usr" / "bin" / "promtool")


def find_alertmanager() -> Tools:
    """Alertmanager and amtool: on PATH, else built now or earlier.

    Raises:
        GoUnavailable: they are not there, and no Go to build them with.
        FetchError: the build failed; the message ends with what the compiler said.
    """
    server = shutil.which("alertmanager") or shutil.which("prometheus-alertmanager")
    tool = shutil.which("amtool")
    if server and tool:
        return Tools(Path(server), Path(tool))
    built = [
        # Without the tag it looks for its templates and pages beside its own source.
        build(ALERTMANAGER + name, ALERTMANAGER_VERSION, name, tags="builtinassets")
        for name in ("alertmanager", "amtool")
    ]
    return Tools(*built)


def _unpack(target: Path) -> None:
    absent = [program for program in ("apt-get", "dpkg") if shutil.which(program) is None]
    if absent:
        raise PrometheusUnavailable(
            "expected prometheus and promtool on PATH, or apt-get and dpkg to fetch Debian's package with; "
            f"found no {' and no '.join(absent)}"
        )
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        work = Path(directory)
        download = ["apt-get", "-o", "APT::Sandbox::User=", "download", PACKAGE]
        if _run(download, work).returncode != 0:
            # No lists of packages, as in a fresh container. They are read into a place of ours: no root is needed.
            state = _private_state(work)
            update, fetched = _run(["apt-get", *state, "update"], work), _run([*download, *state], work)
            if fetched.returncode != 0:
                raise FetchError(
                    f"apt-get could not download {PACKAGE}: {(update.stderr + fetched.stderr).strip()[-1000:]}"
                )
        tree = work / "tree"
        for package in sorted(work.glob("*.deb")):
            done = _run(["dpkg", "-x", str(package), str(tree)], work)
            if done.returncode != 0:
                raise FetchError(f"{package.name} cannot be unpacked: {done.stderr.strip()[-1000:]}")
        tree.replace(target)  # whole or not at all


def _private_state(work: Path) -> list[str]:
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    return ["-o", f"Dir::State={work / 'state'}", "-o", f"Dir::Cache={work / 'cache'}"]


def _run(command: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    try:
        return subprocess.run(
            command, cwd=directory, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"{' '.join(command[:1])} took longer than {_TIMEOUT_S} s") from error
