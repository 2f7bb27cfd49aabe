"""Writes files that appear whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from glaim_stream.core.errors import SettingsError


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that is renamed into place when the block ends, unless it raises.

    A link keeps pointing to its target, which is replaced; an existing file keeps its permissions. Anything but a
    regular file, such as /dev/stdout or a named pipe, is written directly.

    Raises:
        SettingsError: the folder is absent, or the file cannot be written, for example on a full disk.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            if target.is_dir():
                raise SettingsError(f"expected a file to write to, found the folder {path}")
            with target.open("wb") as direct:
                yield direct
            return
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".partial")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror or error}") from error
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.chmod(_mode(target))
        partial.replace(target)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written and is as it was before: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def same_file(first: Path, second: Path) -> bool:
    """Whether two paths lead to the same file, directly or by links."""
    with suppress(OSError):
        return first.samefile(second)
    return os.path.realpath(first) == os.path.realpath(second)


def _mode(target: Path) -> int:
    with suppress(OSError):
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
