"""The shared parts of the commands `closed-form`, `cascade` and `simple`: flags, the command of a line, exit status."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.paper import jobs, page
from benchmarks.paper.cells import PaperCell
from benchmarks.paper.datasets import MOST_CELLS
from training.errors import ConfigError


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the flags that choose cells and test windows."""
    made = argparse.ArgumentParser(
        prog=f"python -m benchmarks.paper {name}", description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    made.add_argument(
        "--only", action="append", default=[], metavar="CELL", help="data set/pattern/rate to score, with *; repeatable"
    )
    made.add_argument(
        "--every", type=int, metavar="N",
        help=f"score every Nth test window alone (default: 1, more where a set's test windows have more than "
        f"{2 * MOST_CELLS / 1e6:g} million cells)",
    )  # fmt: skip
    return made


def parsed(made: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments.

    Raises:
        ConfigError: --every chooses no window.
    """
    given = made.parse_args(arguments)
    if given.every is not None and given.every < 1:
        raise ConfigError(f"--every must be 1 or more, found {given.every}")
    return given


def of_cell(name: str, cell: PaperCell, every: int) -> str:
    """Return the command that scores a cell again."""
    text = f"python -m benchmarks.paper {name} --only {cell.dataset}/{cell.pattern}/{cell.rate:g}"
    return text + (f" --every {every}" if every > 1 else "")


def until_stopped(work: Callable[[], None], results: Path) -> int:
    """Do work that a later call continues, and write the page of the result lines; return the exit status."""
    try:
        status = jobs.until_stopped(work)
    finally:
        written = page.write(results)
    if not status:
        print(f"wrote {written}")
    return status
