"""Helm, to check the chart with: the machine's own, or one built from its published source.

    python -m deploy.helm --fetch-only

builds it where it is absent (some three minutes on two cores, once), so that no test waits for it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from deploy import gotools
from deploy.bring import bring
from deploy.errors import DeployError

VERSION = "v3.21.4"
PACKAGE = "helm.sh/helm/v3/cmd/helm"


class HelmUnavailable(DeployError):
    """No helm on this machine, and no Go toolchain to build one with."""


def find_helm() -> Path:
    """The `helm` on PATH, else the one built earlier, else one built now.

    Raises:
        HelmUnavailable: There is no helm, and no go to build it with.
        FetchError: The build failed; the message ends with what the compiler said.
    """
    on_path = shutil.which("helm")
    if on_path is not None:
        return Path(on_path)
    try:
        return gotools.build(PACKAGE, VERSION, "helm")
    except gotools.GoUnavailable as error:
        raise HelmUnavailable(f"expected helm on PATH, or go to build {PACKAGE}@{VERSION} with: {error}") from error


def main(arguments: list[str] | None = None) -> int:
    """Find or build helm and say where it is."""
    return bring(
        "helm",
        "Bring the helm that checks the chart.",
        lambda: f"Helm: {find_helm()}",
        named="Helm",
        unavailable=HelmUnavailable,
        arguments=arguments,
    )


if __name__ == "__main__":
    raise SystemExit(main())
