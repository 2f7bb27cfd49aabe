"""Helm for checking the chart: the program on PATH, or one built from its published source.

    python -m deploy.helm --fetch-only

builds Helm where it is absent (once, about three minutes on two cores), so that no test has to wait for it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from deploy import gotools
from deploy.errors import DeployError
from deploy.fetch import fetch_command

VERSION = "v3.21.4"
PACKAGE = "helm.sh/helm/v3/cmd/helm"


class HelmUnavailable(DeployError):
    """There is no helm on this machine and no Go toolchain to build it."""


def find_helm() -> Path:
    """The `helm` on PATH, or one built earlier or now.

    Raises:
        HelmUnavailable: There is no helm, and no go to build it.
        FetchError: The build failed; the message ends with the compiler's output.
    """
    on_path = shutil.which("helm")
    if on_path is not None:
        return Path(on_path)
    try:
        return gotools.build(PACKAGE, VERSION, "helm")
    except gotools.GoUnavailable as error:
        raise HelmUnavailable(f"expected helm on PATH, or go to build {PACKAGE}@{VERSION} with: {error}") from error


def main(arguments: list[str] | None = None) -> int:
    """Find or build helm and print its path."""
    return fetch_command(
        "helm",
        "Find or build Helm, which checks the chart.",
        lambda: f"Helm: {find_helm()}",
        named="Helm",
        unavailable=HelmUnavailable,
        arguments=arguments,
    )


if __name__ == "__main__":
    raise SystemExit(main())
