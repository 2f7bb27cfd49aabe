"""The reference loader of the Compose Specification, and `docker compose` itself. Neither needs a daemon here.

    python -m deploy.compose_spec --fetch-only            # the loader: once, about 20 s on two cores
    python -m deploy.compose_spec --docker-compose        # docker compose too: some minutes; its test skips without it

builds them, so that no test has to wait for them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deploy.cache import CHECKOUT, cache_dir, file_sha256
from deploy.fetch import fetch
from deploy.gotools import GoUnavailable, build, build_in

PACKAGE = "github.com/compose-spec/compose-go/v2/cmd"
VERSION = "v2.16.2"
COMPOSE_SOURCE = CHECKOUT / "deploy" / "compose_cli"  # go.mod and go.sum pin every module


def find_loader() -> Path:
    """The program that loads a compose file and prints it with schema defaults applied, or its errors.

    Raises:
        GoUnavailable: There is no go to build it.
        FetchError: The build failed.
    """
    return build(PACKAGE, VERSION, "cmd")


def docker_compose() -> Path:
    """The path of `docker compose` as a separate program, once it is built."""
    return cache_dir() / "go" / f"compose-{file_sha256(COMPOSE_SOURCE / 'go.sum')[:12]}" / "docker-compose"


def find_docker_compose() -> Path:
    """`docker compose` as a program of its own, built earlier or now.

    Raises:
        GoUnavailable: There is no go to build it.
        FetchError: The build failed.
    """
    target = docker_compose()
    packages = {target.name: "github.com/docker/compose/v2/cmd"}
    (program,) = build_in(COMPOSE_SOURCE, packages, target.parent, "-s -w")
    return program


def main(arguments: list[str] | None = None) -> int:
    """Build the programs and print their paths."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.compose_spec", description="Build the readers of compose files."
    )
    parser.add_argument("--fetch-only", action="store_true", help="accepted for symmetry with the other runners")
    parser.add_argument("--docker-compose", action="store_true", help="build docker compose as well")
    both = parser.parse_args(arguments).docker_compose
    return fetch(
        lambda: (
            f"Compose Specification: {find_loader()}" + (f"\ndocker compose: {find_docker_compose()}" if both else "")
        ),
        named="The loader of compose files",
        unavailable=GoUnavailable,
    )


if __name__ == "__main__":
    raise SystemExit(main())
