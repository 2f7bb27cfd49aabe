"""The reference loader of the Compose Specification, which `docker compose` uses too. It needs no daemon.

    python -m deploy.compose_spec --fetch-only

builds it (once, about 20 s on two cores), so that no test has to wait for it.
"""

from __future__ import annotations

from pathlib import Path

from deploy.fetch import fetch_command
from deploy.gotools import GoUnavailable, build

PACKAGE = "github.com/compose-spec/compose-go/v2/cmd"
VERSION = "v2.16.2"


def find_loader() -> Path:
    """The program that loads a compose file and prints it with schema defaults applied, or its errors.

    Raises:
        GoUnavailable: There is no go to build it.
        FetchError: The build failed.
    """
    return build(PACKAGE, VERSION, "cmd")


def main(arguments: list[str] | None = None) -> int:
    """Build the loader and print its path."""
    return fetch_command(
        "compose_spec",
        "Build the loader of compose files.",
        lambda: f"Compose Specification: {find_loader()}",
        named="The loader of compose files",
        unavailable=GoUnavailable,
        arguments=arguments,
    )


if __name__ == "__main__":
    raise SystemExit(main())
