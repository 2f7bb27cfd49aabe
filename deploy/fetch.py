"""The command line shared by `python -m deploy.<part> --fetch-only`: fetch a part, print its path, return a status."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from deploy.errors import DeployError

CANNOT_RUN_HERE = 3  # exit status where this machine does not support a part; not a failure

_Errors = type[DeployError] | tuple[type[DeployError], ...]


def fetch(find: Callable[[], str], *, named: str, unavailable: _Errors = ()) -> int:
    """Fetch or build a part and print where it is.

    Args:
        find: Fetches or builds the part; returns the line to print.
        named: The part's name in the message for an unsupported machine.
        unavailable: The errors by which `find` reports an unsupported machine.

    Returns:
        The exit status: 0, CANNOT_RUN_HERE, or 1 with the error printed.
    """
    try:
        print(find())
    except unavailable as error:
        print(f"{named} cannot run here: {error}")
        return CANNOT_RUN_HERE
    except DeployError as error:
        print(f"error: {error}")
        return 1
    return 0


def fetch_command(
    part: str,
    description: str,
    find: Callable[[], str],
    *,
    named: str,
    unavailable: _Errors,
    arguments: Sequence[str] | None = None,
) -> int:
    """Run the command line of a part that can only be fetched, not started.

    Args:
        part: Module of `deploy`.
        description: Text for `--help`.
        find: See `fetch`.
        named: See `fetch`.
        unavailable: See `fetch`.
        arguments: Command-line arguments; None means `sys.argv`.

    Returns:
        The exit status, see `fetch`.
    """
    parser = argparse.ArgumentParser(prog=f"python -m deploy.{part}", description=description)
    parser.add_argument("--fetch-only", action="store_true", help="accepted for symmetry with the other runners")
    parser.parse_args(arguments)
    return fetch(find, named=named, unavailable=unavailable)
