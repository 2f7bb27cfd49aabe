"""The directory for downloads, and the locks by which several processes share it."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

CHECKOUT = Path(__file__).resolve().parent.parent

Report = Callable[[str], None]  # receives the progress lines of a download or build


def cache_dir() -> Path:
    """The directory for downloads: `GLAIM_CACHE`, or `.cache` of the checkout. Deleting it is always safe."""
    return Path(os.environ.get("GLAIM_CACHE") or CHECKOUT / ".cache").expanduser().resolve()


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file in lower-case hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a machine-wide lock while the block runs.

    The kernel releases the lock when its holder dies, so a killed installation blocks no later one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def try_lock(path: Path) -> IO[str] | None:
    """The locked file, or None if another process holds the lock.

    The lock is released when every process that inherited the file has closed it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
