"""Passwords and tokens in files that are read again when they change."""

from __future__ import annotations

import logging
from functools import lru_cache
from pathlib import Path
from threading import Lock

from glaim_stream.errors import SettingsError

log = logging.getLogger(__name__)


class SecretFile:
    """One line of text in a file, such as a token. It may be used by several threads.

    While the file is absent or empty, because it is being replaced, the last text stays in use.
    """

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            SettingsError: it holds no text, or more than one line.
        """
        self.path = path
        self._lock = Lock()
        self._read_state: tuple[int, ...] | None = None
        self._refused_state: tuple[int, ...] | None = None
        self._text = self._read(file_stamp(path))

    def text(self) -> str:
        """Return the newest text."""
        with self._lock:
            state = file_stamp(self.path)
            if state not in (self._read_state, self._refused_state):
                try:
                    self._text = self._read(state)
                except SettingsError as error:
                    self._refused_state = state
                    log.warning("keeping the text that was read before: %s", error)
                else:
                    log.info("%s has changed and was read again", self.path)
            return self._text

    def _read(self, state: tuple[int, ...]) -> str:
        try:
            text = self.path.read_text("utf-8").strip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{self.path}: expected a file with a secret, found: {error}") from error
        if not text or not text.isprintable():  # the secret itself is not shown
            raise SettingsError(f"{self.path}: expected one line with a secret, found {len(text)} characters")
        self._read_state = state
        return text


@lru_cache(maxsize=64)
def secret_file(path: Path) -> SecretFile:
    """The process's watch of this file.

    Raises:
        SettingsError: it holds no text, or more than one line.
    """
    return SecretFile(path)


def file_stamp(path: Path) -> tuple[int, ...]:
    """Return numbers that change with a file, behind links too; empty for one that is not there."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
