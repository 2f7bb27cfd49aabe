"""Creates the folder of a run and removes those of old runs, because each holds a dump of a topic.

    python -m training.workspace /runs --run weekly-29384920 --keep 2

An existing folder of the run itself is kept, whatever its age: that run continues.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from training.errors import ConfigError, exits_with_errors

MARK = ".run"  # marks the folders made here; nothing else is ever removed
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def prepare(place: Path, run: str, keep: int) -> list[str]:
    """Make the folder of a run, and remove all others but the `keep` newest.

    Returns:
        The names of the removed folders, oldest first.

    Raises:
        ConfigError: the name cannot name a folder, or the folder is not writable.
    """
    if not _NAME.fullmatch(run):
        raise ConfigError(f"expected a run's name of letters, digits, '-', '_' and '.', found {run!r}")
    folder = place / run
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).touch()
    except OSError as error:
        raise ConfigError(f"expected to write in {folder}: {error.strerror}") from error
    others = [mark for mark in place.glob(f"*/{MARK}") if mark.parent != folder]
    others.sort(key=lambda mark: mark.stat().st_mtime_ns)  # touched at the start of each attempt
    old = [mark.parent for mark in others[: max(0, len(others) - keep)]]
    for each in old:
        shutil.rmtree(each)
    return [each.name for each in old]


@exits_with_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 2 after an error message."""
    parser = argparse.ArgumentParser(
        prog="python -m training.workspace", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("place", type=Path, help="folder of all runs")
    parser.add_argument("--run", required=True, help="name of this run")
    parser.add_argument("--keep", type=int, default=2, help="number of other runs to keep (default %(default)s)")
    given = parser.parse_args(arguments)
    for name in prepare(given.place, given.run, given.keep):
        print(f"removed {given.place / name}")
    print(f"{given.place / given.run}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
