"""The group of long tests that `.ci/run` runs beside `make test`.

`.ci/turn` holds the number of the landing; the groups take turns by it, so three landings in a row draw each of three
groups, however many commits a landing has. `make next-turn` advances it, in the last commit of a landing. Where that
was forgotten, the hash of the commit decides, so that no landing fails for it and none can choose.

This module imports the standard library alone: it runs before anything is installed.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TURN_FILE = ".ci/turn"


def number_of_landing(checkout: Path) -> int:
    """Return the number that the last commit advanced to, or one that follows from its hash."""
    number, before = (_committed(checkout, commit) for commit in ("HEAD", "HEAD^"))
    if number == before + 1:
        return number
    print(f"the last commit does not advance {TURN_FILE} by one (make next-turn): its hash decides", file=sys.stderr)
    return int(_git(checkout, "rev-parse", "HEAD"), 16)


def advance(checkout: Path) -> int:
    """Write the number of the next landing into the working tree, and return it."""
    number = _committed(checkout, "HEAD") + 1
    (checkout / TURN_FILE).write_text(f"{number}\n")
    return number


def _committed(checkout: Path, commit: str) -> int:
    return int(_git(checkout, "show", f"{commit}:{TURN_FILE}").partition(".")[0] or 0)


def _git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main(arguments: Sequence[str]) -> None:
    """Print the group that is due; with `--next` first, advance the file."""
    advances, groups = arguments[:1] == ["--next"], [each for each in arguments if each != "--next"]
    number = advance(Path.cwd()) if advances else number_of_landing(Path.cwd())
    print(groups[number % len(groups)])


if __name__ == "__main__":
    main(sys.argv[1:])
