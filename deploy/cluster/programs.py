"""The programs of a control plane, built once from pinned source (eight minutes on two idle cores) and cached."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy import gotools
from deploy.cache import Report, cache_dir, file_sha256
from deploy.errors import DeployError

HERE = Path(__file__).parent
KUBERNETES_SOURCE = HERE / "kubernetes"  # go.mod and go.sum pin every module
ETCD_SOURCE = HERE / "etcd"
KWOK_VERSION = "v0.7.0"


class ClusterUnavailable(DeployError):
    """No control plane can be built: there is no Go toolchain on this machine, and PyPI has none for its platform."""


@dataclass(frozen=True)
class Programs:
    """Paths of the five programs."""

    etcd: Path
    api_server: Path
    controller_manager: Path
    scheduler: Path
    kwok: Path


def control_plane(report: Report = print) -> Programs:
    """Build the programs unless they are in the cache; later calls take milliseconds.

    Raises:
        ClusterUnavailable: There is no Go toolchain to build them.
        FetchError: A build failed; the message ends with the compiler's output.
    """
    try:
        etcd, kwok = _etcd(report), _kwok(report)
        api_server, controller_manager, scheduler = _kubernetes(report)
    except gotools.GoUnavailable as error:
        raise ClusterUnavailable(str(error)) from error
    return Programs(etcd, api_server, controller_manager, scheduler, kwok)


def kubernetes_version() -> str:
    """The version pinned in go.mod, such as `v1.34.4`."""
    match = re.search(r"k8s\.io/kubernetes (v[0-9.]+)", (KUBERNETES_SOURCE / "go.mod").read_text())
    if match is None:
        raise ClusterUnavailable(f"{KUBERNETES_SOURCE / 'go.mod'} requires no version of k8s.io/kubernetes")
    return match[1]


_KWOK = "sigs.k8s.io/kwok/cmd/kwok"
_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def _kubernetes(report: Report) -> list[Path]:
    version = kubernetes_version()
    major, minor = version.removeprefix("v").split(".")[:2]
    # Upstream's build sets these variables. Without them the API server reports v0.0.0, which does not satisfy the
    # chart's kubeVersion.
    variables = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    flags = " ".join(
        ["-s", "-w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in variables.items())]
    )
    built = []
    for name in _COMPONENTS:  # one by one, to report progress
        with _reported(report, f"{name} {version}"):
            packages = {name: f"k8s.io/kubernetes/cmd/{name}"}
            built += gotools.build_in(KUBERNETES_SOURCE, packages, _directory("kubernetes", KUBERNETES_SOURCE), flags)
    return built


def _etcd(report: Report) -> Path:
    with _reported(report, "etcd"):
        (built,) = gotools.build_in(ETCD_SOURCE, {"etcd": "."}, _directory("etcd", ETCD_SOURCE), "-s -w")
    return built


def _kwok(report: Report) -> Path:
    with _reported(report, f"kwok {KWOK_VERSION}"):
        return gotools.build(_KWOK, KWOK_VERSION, "kwok")


def _directory(name: str, source: Path) -> Path:
    """A cache directory whose name changes with the pinned modules."""
    return cache_dir() / "go" / f"{name}-{file_sha256(source / 'go.sum')[:12]}"


@contextmanager
def _reported(report: Report, what: str) -> Iterator[None]:
    """Report the duration if it was long enough for a build instead of a cache hit."""
    started = time.monotonic()
    yield
    took = time.monotonic() - started
    if took > 5:
        report(f"cluster: built {what} in {took:.0f} s")
