"""Files that a command reads and writes, of which one may be a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

PIPE = "-"


def content_of(file: str) -> bytes:
    """The bytes of a file, or of standard input.

    Raises:
        SettingsError: it cannot be read.
    """
    from glaim_stream.errors import SettingsError

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
    from glaim_stream.errors import SettingsError
    from glaim_stream.tables.output_files import whole_file

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
