"""Where downloads live, and how several processes share them without stepping on each other."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

CHECKOUT = Path(__file__).resolve().parent.parent


def cache_dir() -> Path:
    """The directory for downloads: `GLAIM_CACHE`, else `.cache` of the checkout. Deleting it is always safe."""
    return Path(os.environ.get("GLAIM_CACHE") or CHECKOUT / ".cache").expanduser().resolve()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file in lower-case hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock among all processes of this machine for as long as the block runs.

    The kernel drops the lock when its holder dies, so a killed set-up blocks nobody.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def try_lock(path: Path) -> IO[str] | None:
    """The locked file, or None if somebody else holds it; freed when every process that inherited it has closed it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
