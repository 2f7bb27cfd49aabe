"""The folder beside an output with the finished parts of a run, from which a later run goes on.

The folder belongs to one process at a time, by a lock that ends with it. Its manifest states what the parts depend on:
the content of the input, the flags and the version of the program. Parts of anything else are removed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from glaim_stream.core.errors import SettingsError, listed

_MANIFEST = "manifest.json"
_OURS = re.compile(r"(manifest\.json|[a-z]+-\d{6}\.(npz|npy|arrow|json|jsonl))(\.[a-z]+)?")


@dataclass(frozen=True)
class Unfinished:
    """A folder with finished parts, in files named `<task>-<number of six digits>.<ending>`.

    said: what became of the parts of an earlier run; empty if there are none.
    """

    folder: Path
    said: str = ""

    def path(self, task: str, number: int, ending: str) -> Path:
        """The file of a part."""
        return self.folder / f"{task}-{number:06d}.{ending}"

    def write(self, path: Path, content: bytes) -> None:
        """Write a file of the folder, which is whole under its name.

        Raises:
            SettingsError: it cannot be written, for example on a full disk.
        """
        new = path.with_name(f"{path.name}.new")
        try:
            new.write_bytes(content)
            new.replace(path)
        except OSError as error:
            raise SettingsError(f"{path} cannot be written: {error.strerror or error}") from error


@contextmanager
def kept_parts(folder: Path, depends_on: Mapping[str, object], *, finished: str) -> Iterator[Unfinished]:
    """The folder of a run; it is removed at the end, and stays if the run fails with finished parts in it.

    Args:
        folder: folder beside the output.
        depends_on: what the parts depend on, as plain JSON.
        finished: pattern of the files, of which each finished part has one.

    Raises:
        SettingsError: another process has the folder, it is someone else's, or it cannot be written.
    """
    handle = _locked(folder)
    try:
        strange = [each.name for each in folder.iterdir() if not _OURS.fullmatch(each.name)]
        if strange:
            raise SettingsError(
                f"expected {folder} to be absent or to hold the parts of an earlier run, found {listed(strange[:3])} "
                "in it: move it away, or name another --out"
            )
        yield _begun(folder, depends_on, finished)
        shutil.rmtree(folder)
    finally:
        with suppress(OSError):
            if not any(folder.glob(finished)) and all(_OURS.fullmatch(each.name) for each in folder.iterdir()):
                shutil.rmtree(folder)  # nothing to go on from
        if handle is not None:
            os.close(handle)


def _begun(folder: Path, depends_on: Mapping[str, object], finished: str) -> Unfinished:
    """Write the manifest, and remove the parts of another one."""
    depends_on = json.loads(json.dumps(depends_on, default=str))
    path, parts = folder / _MANIFEST, len(list(folder.glob(finished)))
    try:
        before = json.loads(path.read_text())
    except (OSError, ValueError):
        before = {}
    if before == depends_on:
        goes_on = f"goes on where an earlier run stopped: {parts} finished parts in {folder}"
        return Unfinished(folder, goes_on if parts else "")
    for each in folder.iterdir():
        each.unlink()
    changed = " and ".join(name for name in depends_on if before.get(name) != depends_on[name])
    anew = f"begins anew: {parts} finished parts in {folder} are of another {changed}"
    begun = Unfinished(folder, anew if parts else "")
    begun.write(path, json.dumps(depends_on, sort_keys=True).encode())
    return begun


def _locked(folder: Path) -> int | None:
    """Make and lock the folder, and return its handle; None on Windows, which has no such lock.

    Raises:
        SettingsError: another process has it, or it cannot be made.
    """
    while True:
        try:
            folder.mkdir(exist_ok=True)
            if sys.platform == "win32":
                return None
            import fcntl  # late: Windows lacks it

            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise SettingsError(f"{folder} cannot be made or used: {error.strerror or error}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise SettingsError(
                f"another process writes the same output, and has {folder}: wait until it has ended, or name "
                "another --out"
            ) from None
        with suppress(OSError):
            if folder.stat().st_ino == os.fstat(handle).st_ino:
                return handle
        os.close(handle)  # its former owner has ended, and removed it meanwhile
