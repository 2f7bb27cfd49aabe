"""The turn of a landing: which of the long groups of tests `.ci/run` runs beside `make test`.

`.ci/turn` holds the number of the landing and the attempt, `7.1` for example. The groups take turns by that number, so
three landings in a row draw each of three groups, however many commits a landing has. The last commit of a landing
advances the file; `.ci/run` fails at once where it does not. A landing that failed keeps its number and counts the
attempt, so that the group that failed is drawn again.

This module imports the standard library alone: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

TURN_FILE = ".ci/turn"


class NotAdvanced(Exception):
    """The last commit does not advance the turn."""


class Turn(NamedTuple):
    """A landing, and how often it was tried."""

    landing: int
    attempt: int

    def draw(self, groups: Sequence[str]) -> str:
        """Return the group of this landing."""
        return groups[self.landing % len(groups)]

    def next(self, again: bool) -> Turn:
        """Return the turn of the next landing, or with `again` that of another attempt at this one."""
        return Turn(self.landing, self.attempt + 1) if again else Turn(self.landing + 1, 1)


def turn_of_last_commit(checkout: Path) -> Turn:
    """Return the turn that the last commit advanced to; raise `NotAdvanced` if it left the file as it was."""
    turn, before = _committed(checkout, "HEAD"), _committed(checkout, "HEAD^")
    if turn not in (before.next(again=False), before.next(again=True)):
        raise NotAdvanced(
            f"expected the last commit of a landing to advance {TURN_FILE} from {before.landing}.{before.attempt}, "
            f"found {turn.landing}.{turn.attempt}: run `make next-turn` (after a landing that failed "
            f"`make next-turn AGAIN=1`) and commit {TURN_FILE}, last of all"
        )
    return turn


def _committed(checkout: Path, commit: str) -> Turn:
    shown = subprocess.run(
        ["git", "-C", str(checkout), "show", f"{commit}:{TURN_FILE}"], capture_output=True, text=True, check=False
    )
    return _read(shown.stdout) if shown.returncode == 0 else Turn(0, 0)


def _read(text: str) -> Turn:
    landing, attempt = text.split(".")
    return Turn(int(landing), int(attempt))


def main() -> int:
    """Print the group of the last commit, or advance the file."""
    parser = argparse.ArgumentParser(prog="python -m tests.turns", description="Print the group of the last commit.")
    parser.add_argument("groups", nargs="+", help="the groups that take turns")
    parser.add_argument("--next", action="store_true", help=f"advance {TURN_FILE} instead")
    parser.add_argument("--again", action="store_true", help="with --next: another attempt at the landing that failed")
    arguments = parser.parse_args()
    checkout = Path.cwd()
    if arguments.next:
        turn = _committed(checkout, "HEAD").next(arguments.again)
        (checkout / TURN_FILE).write_text(f"{turn.landing}.{turn.attempt}\n")
        print(f"{TURN_FILE} is {turn.landing}.{turn.attempt} ({turn.draw(arguments.groups)}); commit it, last of all")
        return 0
    try:
        print(turn_of_last_commit(checkout).draw(arguments.groups))
    except NotAdvanced as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
