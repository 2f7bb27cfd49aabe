"""Consoles for tables and progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from rich.console import Console

_FILE_COLUMNS = 160  # a file or a pipe has no width: wide enough to cut nothing
_LINE_EVERY_S = 5.0


def result_console() -> Console:
    """The console of results: as wide as the terminal, and wide without one."""
    return plain_console(file_width(sys.stdout))


def file_width(file: IO[str]) -> int | None:
    """The width of what is printed to a file; None for that of the terminal."""
    return None if file.isatty() else _FILE_COLUMNS


def plain_console(width: int | None, file: IO[str] | None = None) -> Console:
    """A console that shows text as it is: a group may be named `pump-[/]` or `:warning:`."""
    return Console(width=width, file=file, markup=False, emoji=False, highlight=False)


@contextmanager
def progress_bar(what: str, unit: str) -> Iterator[Callable[[int, int], object]]:
    """A progress bar on a terminal, else a line every few seconds; on stderr, so that stdout holds only the result."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if console.is_terminal:
        columns = (TextColumn(what), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    began_s = last_s = time.monotonic()
    begun: int | None = None  # what an earlier run did tells nothing about the speed of this one
    shown = 0

    def line(done: int, total: int) -> None:
        nonlocal began_s, begun, last_s, shown
        now_s = time.monotonic()
        if begun is None:
            begun, shown, began_s = done, done, now_s
        if now_s - last_s >= _LINE_EVERY_S and done > shown:
            last_s, shown = now_s, done
            left_s = (now_s - began_s) / (done - begun) * (total - done)
            print(f"{what}: {done} of {total} {unit}, about {left_s:.0f} s left", file=sys.stderr, flush=True)

    yield line
