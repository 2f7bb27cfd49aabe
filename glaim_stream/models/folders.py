"""Read access to the folder of a model, on a disk without following links, or in a store."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Protocol

from glaim_stream.core.contract import CONTRACT_FILE, FORM_FILE
from glaim_stream.core.errors import ModelError
from glaim_stream.models.store import Store, local_path

# Not part of any version: copies of a version's contract, the closed form, which is fitted anew between versions, and
# byte code that Python leaves beside a source.
_MODELS_OWN = frozenset(
    {CONTRACT_FILE, f"{CONTRACT_FILE}.partial", FORM_FILE, "gaussian.manifest.json", "gaussian.manifest.json.minisig"}
)
_FORM_PARTIAL = f".{FORM_FILE}."  # prefix of the name while the file is written; letters follow
_BYTE_CODE = "__pycache__"
_BLOCK = 1 << 22


class Folder(Protocol):
    """The folder of one model."""

    def names(self, version: int) -> list[str]:
        """Paths of all files of a version, and of those that all versions share.

        Raises:
            ModelError: the folder contains something that is neither a file nor a folder.
        """
        ...

    def read(self, path: str, limit: int) -> bytes | None:
        """Content of a file, at most `limit` + 1 bytes of it; None if it is absent.

        Raises:
            ModelError: the path is not a file.
        """
        ...


def versions_files(folder: Folder, version: int) -> list[str]:
    """Paths of the files in the folder of a version."""
    names = folder.names(version)
    return [path for path in names if path.startswith(f"{version}/") and _BYTE_CODE not in path.split("/")]


def shared_files(folder: Folder, version: int) -> list[str]:
    """Paths of the files that all versions share: configurations and warm-up windows."""
    return [
        path
        for path in folder.names(version)
        if not path.partition("/")[0].isdigit()
        and path not in _MODELS_OWN
        and not path.startswith(_FORM_PARTIAL)
        and _BYTE_CODE not in path.split("/")
    ]


class DiskFolder:
    """A model's folder on a disk; a link below it is an error wherever it leads."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, version: int) -> list[str]:
        """See Folder."""
        found: list[str] = []
        if self._root.is_dir():
            self._walk(self._root, "", str(version), found)
        return found

    def _walk(self, folder: Path, prefix: str, version: str, found: list[str]) -> None:
        with os.scandir(folder) as entries:
            for entry in entries:
                path = prefix + entry.name
                if not prefix and entry.name.isdigit() and entry.name != version:
                    continue  # an error in one version must not affect the others
                if entry.is_dir(follow_symlinks=False):
                    self._walk(Path(entry.path), f"{path}/", version, found)
                elif entry.is_file(follow_symlinks=False):
                    found.append(path)
                else:
                    raise ModelError(f"{path!r} is a link or a device")

    def read(self, path: str, limit: int) -> bytes | None:
        """See Folder."""
        *parents, name = path.split("/")
        folder = -1
        try:
            folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
            for parent in parents:
                inner = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = inner
            # Not blocking, because opening a pipe would wait for a writer.
            with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder), "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise ModelError(f"{path!r} is not a file")
                return file.read(min(found.st_size, limit) + 1)  # allocates so many bytes first
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ModelError(f"{path!r} is a link, or cannot be read: {error.strerror}") from error
        finally:
            if folder >= 0:
                os.close(folder)


class StoreFolder:
    """A model's folder in an object store, which has no links."""

    def __init__(self, store: Store, model: str) -> None:
        self._store, self._model = store, model

    def names(self, version: int) -> list[str]:
        """See Folder."""
        return list(self._store.files(self._model))

    def read(self, path: str, limit: int) -> bytes | None:
        """See Folder."""
        place = f"{self._model}/{path}"
        if not self._store.has(place):
            return None
        found, left = bytearray(), limit + 1
        with self._store.fs.open_input_stream(f"{self._store.path}/{place}") as file:
            while block := file.read(min(left, _BLOCK)):  # allocates so many bytes first
                found += block
                left -= len(block)
        return bytes(found)


def folder_of(store: Store, model: str) -> Folder:
    """The folder of a model of a repository."""
    path = local_path(store)
    return StoreFolder(store, model) if path is None else DiskFolder(path / model)
