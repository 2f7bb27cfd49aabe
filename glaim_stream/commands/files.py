"""Files that a command reads and writes, of which one may be a pipe, and the flags that say what they are."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from glaim_stream.commands.sources import DateOrder

PIPE = "-"


@dataclass(frozen=True)
class Detected:
    """What is detected in a file where the user does not state it."""

    time: Annotated[str | None, typer.Option(help="Time column, or several as `Date+Clock`. [default: detected]")] = (
        None
    )
    date_order: Annotated[
        DateOrder | None, typer.Option(help="Order of dates such as 1/2/2026. [default: detected]")
    ] = None
    decimal: Annotated[str, typer.Option(help="Decimal sign, `.` or `,`. [default: detected]")] = ""
    sensor: Annotated[
        list[str] | None, typer.Option(help="Column that is a sensor; repeatable. [default: detected]")
    ] = None
    missing: Annotated[
        list[str] | None,
        typer.Option(
            help="A number or text (`-200`, `Bad`) that means no reading, or `COLUMN=VALUE`; repeatable. [default: "
            "detected]"
        ),
    ] = None

    @property
    def stated(self) -> dict[str, Any]:
        """The keywords of `files.read.read` for these flags."""
        return {
            "time": self.time,
            "date_order": self.date_order or "",
            "decimal": self.decimal,
            "sensors": tuple(self.sensor or ()),
            "missing": tuple(self.missing or ()),
        }


def content_of(file: str) -> bytes:
    """The bytes of a file, or of standard input.

    Raises:
        SettingsError: it cannot be read.
    """
    from glaim_stream.core.errors import SettingsError

    if file == PIPE:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror or error}") from error


@contextmanager
def opened(target: str) -> Iterator[IO[bytes]]:
    """A file that appears whole at the end of the block, or standard output.

    Raises:
        SettingsError: it cannot be written.
    """
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.tables import whole_file

    if target != PIPE:
        with whole_file(Path(target)) as file:
            yield file
        return
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is left in the buffer would be written again when Python ends, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SettingsError(f"standard output cannot be written: {error.strerror or error}") from error
