"""The loader of the Compose Specification, below `docker compose` too: its schema, merging and defaults, no daemon.

    python -m deploy.compose_spec --fetch-only

builds it (some 20 s on two cores, once), so that no test waits for it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deploy.errors import DeployError
from deploy.gotools import GoUnavailable, build

PACKAGE = "github.com/compose-spec/compose-go/v2/cmd"
VERSION = "v2.16.2"
CANNOT_RUN_HERE = 3  # exit status, as of deploy.triton


def find_loader() -> Path:
    """The program that reads a compose file and prints what it means, or what is wrong with it.

    Raises:
        GoUnavailable: there is no go to build it with.
        FetchError: the build failed.
    """
    return build(PACKAGE, VERSION, "cmd")


def main(arguments: list[str] | None = None) -> int:
    """Build the loader and say where it is."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.compose_spec", description="Bring the loader of compose files."
    )
    parser.add_argument("--fetch-only", action="store_true", help="all there is to do; as of the other runners")
    parser.parse_args(arguments)
    try:
        print(f"Compose Specification: {find_loader()}")
    except GoUnavailable as error:
        print(f"the loader of compose files cannot be had here: {error}")
        return CANNOT_RUN_HERE
    except DeployError as error:
        print(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
