"""What `python -m deploy.<part> --fetch-only` does: bring a part, say where it is, and how it ended by a status."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from deploy.errors import DeployError

CANNOT_RUN_HERE = 3  # exit status where a part cannot be had or run: a fact about the machine, no failure


def bring(
    part: str,
    description: str,
    find: Callable[[], str],
    *,
    named: str,
    unavailable: type[DeployError] | tuple[type[DeployError], ...],
    arguments: Sequence[str] | None = None,
) -> int:
    """Find, fetch or build a part for which fetching is all there is to do.

    Args:
        part: module of deploy.
        description: of the program, for `--help`.
        find: brings it; returns what to print.
        named: what cannot be had where it cannot.
        unavailable: what `find` raises there.
        arguments: of the command line.

    Returns:
        The exit status: 0, CANNOT_RUN_HERE, or 1 with the error printed.
    """
    parser = argparse.ArgumentParser(prog=f"python -m deploy.{part}", description=description)
    parser.add_argument("--fetch-only", action="store_true", help="all there is to do; as of the other runners")
    parser.parse_args(arguments)
    try:
        print(find())
    except unavailable as error:
        print(f"{named} cannot be had here: {error}")
        return CANNOT_RUN_HERE
    except DeployError as error:
        print(f"error: {error}")
        return 1
    return 0
