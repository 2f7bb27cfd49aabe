"""Passwords and tokens in files that are read again when they change."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.watched_files import WatchedFiles


class SecretFile(WatchedFiles[str]):
    """One line of text in a file, such as a token."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            SettingsError: it holds no text, or more than one line.
        """
        super().__init__(f"the contents of {path}", [path], partial(_secret_of, path))
        self.path = path

    def text(self) -> str:
        """Return the newest text."""
        return self.current()


@lru_cache(maxsize=64)
def secret_file(path: Path) -> SecretFile:
    """The process's watch of this file.

    Raises:
        SettingsError: it holds no text, or more than one line.
    """
    return SecretFile(path)


def _secret_of(path: Path) -> str:
    try:
        text = path.read_text("utf-8").strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: expected a file with a secret, found: {error}") from error
    if not text or not text.isprintable():  # the secret itself is not shown
        raise SettingsError(f"{path}: expected one line with a secret, found {len(text)} characters")
    return text
