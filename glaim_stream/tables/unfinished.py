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

from glaim_stream.core.errors import ModelError, SettingsError, listed
from glaim_stream.form import artefact

_MANIFEST = "manifest.json"
_OURS = re.compile(r"(manifest\.json|[a-z]+-\d+\.npz)(\.new)?")


@dataclass(frozen=True)
class Unfinished:
    """A folder with finished parts.

    said: what became of the parts of an earlier run; empty if there are none.
    """

    folder: Path
    said: str = ""

    def read(self, task: str, number: int, digest: str) -> list[artefact.Arrays] | None:
        """The arrays of each group of a part; None if it is not finished, damaged, or of another digest."""
        path = self.folder / f"{task}-{number:06d}.npz"
        try:
            arrays = artefact.from_bytes(path.read_bytes(), str(path))
            text = artefact.text_of(arrays)
        except (OSError, ModelError):
            return None
        if text.get("digest") != digest:
            return None
        out: list[artefact.Arrays] = [{} for _ in range(text["groups"])]
        for name, array in arrays.items():
            place, known, rest = name.partition(".")
            if known:
                out[int(place)][rest] = array
        return out

    def write(self, task: str, number: int, digest: str, groups: list[artefact.Arrays]) -> None:
        """Keep a finished part.

        Raises:
            SettingsError: the file cannot be written, for example on a full disk.
        """
        arrays = {f"{place}.{name}": array for place, group in enumerate(groups) for name, array in group.items()}
        content = artefact.to_bytes(artefact.with_text(arrays, {"digest": digest, "groups": len(groups)}))
        _put(self.folder / f"{task}-{number:06d}.npz", content)


@contextmanager
def kept_parts(folder: Path, depends_on: Mapping[str, object]) -> Iterator[Unfinished]:
    """The folder of a run; it is removed at the end, and stays if the run fails with finished parts in it.

    Args:
        folder: folder beside the output.
        depends_on: what the parts depend on, as plain JSON.

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
        yield Unfinished(folder, _begun(folder, depends_on))
        shutil.rmtree(folder)
    finally:
        with suppress(OSError):
            if not any(folder.glob("*.npz")) and all(_OURS.fullmatch(each.name) for each in folder.iterdir()):
                shutil.rmtree(folder)  # nothing to go on from
        if handle is not None:
            os.close(handle)


def _begun(folder: Path, depends_on: Mapping[str, object]) -> str:
    """Write the manifest, and remove the parts of another one."""
    depends_on = json.loads(json.dumps(depends_on, default=str))
    path, parts = folder / _MANIFEST, len(list(folder.glob("*.npz")))
    try:
        before = json.loads(path.read_text())
    except (OSError, ValueError):
        before = {}
    if before == depends_on:
        return f"goes on where an earlier run stopped: {parts} finished parts in {folder}" if parts else ""
    for each in folder.iterdir():
        each.unlink()
    _put(path, json.dumps(depends_on, sort_keys=True).encode())
    changed = [name for name in depends_on if before.get(name) != depends_on[name]]
    return f"begins anew: {parts} finished parts in {folder} are of another {' and '.join(changed)}" if parts else ""


def _put(path: Path, content: bytes) -> None:
    """Write a file of the folder, which is whole under its name."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_bytes(content)
        new.replace(path)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror or error}") from error


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
                f"another process fills into the same output, and has {folder}: wait until it has ended, or name "
                "another --out"
            ) from None
        with suppress(OSError):
            if folder.stat().st_ino == os.fstat(handle).st_ino:
                return handle
        os.close(handle)  # its former owner has ended, and removed it meanwhile
