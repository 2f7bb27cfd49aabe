"""The loader of the Compose Specification, below `docker compose` too: its schema, merging and defaults, no daemon.

    python -m deploy.compose_spec --fetch-only

builds it (some 20 s on two cores, once), so that no test waits for it.
"""

from __future__ import annotations

from pathlib import Path

from deploy.bring import bring
from deploy.gotools import GoUnavailable, build

PACKAGE = "github.com/compose-spec/compose-go/v2/cmd"
VERSION = "v2.16.2"


def find_loader() -> Path:
    """The program that reads a compose file and prints what it means, or what is wrong with it.

    Raises:
        GoUnavailable: there is no go to build it with.
        FetchError: the build failed.
    """
    return build(PACKAGE, VERSION, "cmd")


def main(arguments: list[str] | None = None) -> int:
    """Build the loader and say where it is."""
    return bring(
        "compose_spec",
        "Bring the loader of compose files.",
        lambda: f"Compose Specification: {find_loader()}",
        named="the loader of compose files",
        unavailable=GoUnavailable,
        arguments=arguments,
    )


if __name__ == "__main__":
    raise SystemExit(main())
