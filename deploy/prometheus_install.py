"""Finds or fetches Prometheus and Alertmanager with their tools, without root.

The programs on PATH come first. Otherwise Prometheus comes from Debian's package, which runs from any directory, and
Alertmanager is built with `go install`, once, in about two minutes on two cores. The other way round does not work:
Debian's Alertmanager needs a template below /usr/share, and `go install` rejects Prometheus because its go.mod contains
exclude directives. apt verifies Debian's signatures, Go verifies its checksums.
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
    """There is no Prometheus on this machine, and no apt to fetch Debian's package."""


@dataclass(frozen=True)
class Tools:
    """Paths of a server and its command-line tool: Prometheus and promtool, or Alertmanager and amtool."""

    server: Path
    tool: Path


def find_prometheus() -> Tools:
    """Prometheus and promtool: on PATH, from the cache, or from Debian's package (19 MB, a few seconds).

    Raises:
        PrometheusUnavailable: They are absent, and this machine lacks apt-get or dpkg to fetch them.
        FetchError: apt could not fetch them; the message ends with its output.
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
    """Alertmanager and amtool: on PATH, or built earlier or now.

    Raises:
        GoUnavailable: They are absent, and there is no Go to build them.
        FetchError: The build failed; the message ends with the compiler's output.
    """
    server = shutil.which("alertmanager") or shutil.which("prometheus-alertmanager")
    tool = shutil.which("amtool")
    if server and tool:
        return Tools(Path(server), Path(tool))
    built = [
        # Without the tag the server looks for its templates and pages in its source tree.
        build(ALERTMANAGER + name, ALERTMANAGER_VERSION, name, tags="builtinassets")
        for name in ("alertmanager", "amtool")
    ]
    return Tools(*built)


def _unpack(target: Path) -> None:
    absent = [program for program in ("apt-get", "dpkg") if shutil.which(program) is None]
    if absent:
        raise PrometheusUnavailable(
            "expected prometheus and promtool on PATH, or apt-get and dpkg to fetch Debian's package; "
            f"found no {' and no '.join(absent)}"
        )
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        work = Path(directory)
        download = ["apt-get", "-o", "APT::Sandbox::User=", "download", PACKAGE]
        if _run(download, work).returncode != 0:
            # The package lists are absent, as in a fresh container. A private directory for them needs no root.
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
        tree.replace(target)  # atomic: an existing target is complete


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
