"""Helm, to check the chart with: the machine's own, or one built from its published source.

    python -m deploy.helm --fetch-only

builds it where it is absent (some three minutes on two cores, once), so that no test waits for it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from deploy.cache import cache_dir, exclusive
from deploy.errors import DeployError, FetchError

VERSION = "v3.21.4"
PACKAGE = "helm.sh/helm/v3/cmd/helm"
CANNOT_RUN_HERE = 3  # exit status, as of deploy.triton
_BUILD_TIMEOUT_S = 1800
_NICENESS = 10  # the compiler takes every core it can get, and nobody waits for it at a keyboard


class HelmUnavailable(DeployError):
    """No helm on this machine, and no Go toolchain to build one with."""


def find_helm() -> Path:
    """The `helm` on PATH, else the one built earlier, else one built now.

    The Go toolchain checks the source against its public checksum database, so the version is the pin.

    Raises:
        HelmUnavailable: there is no helm, and no go to build it with.
        FetchError: the build failed; the message ends with what the compiler said.
    """
    on_path = shutil.which("helm")
    if on_path is not None:
        return Path(on_path)
    home = cache_dir() / "helm" / VERSION
    built = home / "helm"
    with exclusive(home / ".lock"):
        if not built.exists():
            _build(built)
    return built


def _build(target: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise HelmUnavailable(f"expected helm on PATH, or go to build {PACKAGE}@{VERSION} with, found neither")
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        command = [go, "install", f"{PACKAGE}@{VERSION}"]
        nice = shutil.which("nice")
        if nice is not None:
            command = [nice, "-n", str(_NICENESS), *command]
        # No cgo: helm needs none, and so no C compiler either.
        environment = os.environ | {"GOBIN": directory, "CGO_ENABLED": "0"}
        try:
            run = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise FetchError(f"building {PACKAGE}@{VERSION} took longer than {_BUILD_TIMEOUT_S} s") from error
        if run.returncode != 0:
            raise FetchError(f"{PACKAGE}@{VERSION} could not be built: {run.stderr.strip()[-2000:]}")
        (Path(directory) / "helm").replace(target)  # whole or not at all


def main(arguments: list[str] | None = None) -> int:
    """Find or build helm and say where it is."""
    parser = argparse.ArgumentParser(prog="python -m deploy.helm", description="Bring the helm that checks the chart.")
    parser.add_argument("--fetch-only", action="store_true", help="all there is to do; as of the other runners")
    parser.parse_args(arguments)
    try:
        print(f"Helm: {find_helm()}")
    except HelmUnavailable as error:
        print(f"Helm cannot be had here: {error}")
        return CANNOT_RUN_HERE
    except DeployError as error:
        print(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
