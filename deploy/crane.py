"""crane, which asks registries for digests: the program on PATH, or one built from its published source.

    python -m deploy.crane --fetch-only

builds it where it is absent (once, about a minute on two cores), so that no test has to wait for it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from deploy import gotools
from deploy.fetch import fetch_command

VERSION = "v0.20.6"
PACKAGE = "github.com/google/go-containerregistry/cmd/crane"


def find_crane() -> Path:
    """The `crane` on PATH, or one built earlier or now.

    Raises:
        GoUnavailable: There is no crane, and no go to build it.
        FetchError: The build failed; the message ends with the compiler's output.
    """
    on_path = shutil.which("crane")
    return Path(on_path) if on_path is not None else gotools.build(PACKAGE, VERSION, "crane")


def main(arguments: list[str] | None = None) -> int:
    """Find or build crane and print its path."""
    return fetch_command(
        "crane",
        "Find or build crane, which asks registries for digests.",
        lambda: f"crane: {find_crane()}",
        named="crane",
        unavailable=gotools.GoUnavailable,
        arguments=arguments,
    )


if __name__ == "__main__":
    raise SystemExit(main())
