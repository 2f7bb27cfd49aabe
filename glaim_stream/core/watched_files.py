"""Caches file contents and reloads them on change. During a replacement the old contents stay in use."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

from glaim_stream.core.errors import SettingsError

log = logging.getLogger(__name__)

_RETRY_S = 0.25  # between two attempts to read files that could not be used; there may be many connections meanwhile
_FIRST_TRIES = 3

T = TypeVar("T")


class WatchedFiles(Generic[T]):
    """The newest usable contents of files. It may be used by several threads."""

    def __init__(self, name: str, files: Iterable[Path], read: Callable[[], T]) -> None:
        """Read the files, several times if they cannot be used at first: they may be in the middle of a replacement.

        Args:
            name: name of the contents in log lines.
            files: files to watch.
            read: reads them; raises SettingsError while they cannot be used.

        Raises:
            SettingsError: the files cannot be used.
        """
        self._name, self._files, self._read = name, tuple(files), read
        self._lock = Lock()
        self._state = self._now()
        self._contents = self._first()
        self._refused_state: object = None
        self._retry_s = 0.0

    def current(self) -> T:
        """Return the newest contents; the same object until the files change."""
        with self._lock:
            state = self._now()
            if state == self._state or (state == self._refused_state and time.monotonic() < self._retry_s):
                return self._contents
            try:
                contents = self._read()
            except SettingsError as error:
                if state != self._refused_state:
                    log.warning("%s that were read before stay in use: %s", self._name, error)
                self._refused_state, self._retry_s = state, time.monotonic() + _RETRY_S
                return self._contents
            self._contents, self._state, self._refused_state = contents, state, None
            log.info("%s changed and were read again%s", self._name, self.described(contents))
            return contents

    def described(self, contents: T) -> str:
        """End of the log line about changed contents."""
        return ""

    def _first(self) -> T:
        for _ in range(_FIRST_TRIES - 1):
            try:
                return self._read()
            except SettingsError:
                time.sleep(_RETRY_S)
        return self._read()

    def _now(self) -> tuple[tuple[int, ...], ...]:
        return tuple(map(_stamp, self._files))


def _stamp(path: Path) -> tuple[int, ...]:
    """Numbers that change with a file, behind links too; none for one that is not there."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
