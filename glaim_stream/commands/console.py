"""Where tables go."""

from __future__ import annotations

import sys

from rich.console import Console

_FILE_COLUMNS = 160  # a file or a pipe has no width: wide enough that nothing is cut


def result_console() -> Console:
    """The console of results: as wide as the terminal, and wide where there is none."""
    return Console() if sys.stdout.isatty() else Console(width=_FILE_COLUMNS)
