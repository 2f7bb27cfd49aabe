"""Read access to a model repository on any of Arrow's file systems: a disk, S3, GCS, Azure."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from glaim_stream.core.contract import CONTRACT_FILE, FORM_FILE, WEIGHTS, Contract
from glaim_stream.core.errors import ModelError
from glaim_stream.core.validation import problems_text
from glaim_stream.models.local import WITHDRAWN

_BLOCK = 1 << 20
WITHOUT_FOLDERS = ("s3", "gcs", "abfs")  # there a folder is an empty object without a use
# Names that Triton and Kubernetes accept and that cannot leave the repository.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Store:
    """A repository: Arrow's file system, the folder in it, and its location as the user gave it, a path or URI."""

    fs: Any  # pyarrow.fs.FileSystem
    path: str
    location: str

    def models(self) -> list[str]:
        """Names of the models, ascending: folders that hold a contract or a version's folder."""
        names = [name for name, is_folder in self._entries(self.path) if is_folder and _NAME.fullmatch(name)]
        return sorted(name for name in names if self.has(f"{name}/{CONTRACT_FILE}") or self.folders(name))

    def forms(self) -> list[str]:
        """Names of the models with a closed form, ascending; they need no versions."""
        names = [name for name, is_folder in self._entries(self.path) if is_folder and _NAME.fullmatch(name)]
        return sorted(name for name in names if self.has(f"{name}/{FORM_FILE}"))

    def folders(self, model: str, root: str = "") -> list[int]:
        """Numbers of the version folders of a model, ascending, including incomplete ones."""
        entries = self._entries(f"{root or self.path}/{model}")
        return sorted(int(name) for name, is_folder in entries if is_folder and name.isdigit())

    def folder_names(self, place: str) -> list[str]:
        """Names of the folders in a folder of the repository, ascending."""
        return sorted(name for name, is_folder in self._entries(f"{self.path}/{place}") if is_folder)

    def versions(self, model: str) -> list[int]:
        """Complete versions: those with a contract, which is uploaded after the weights."""
        return [number for number in self.folders(model) if self.contract_path(model, number) is not None]

    def known(self) -> list[str]:
        """Names of the models and closed forms that are here, or of which something was withdrawn, ascending."""
        aside = self.aside
        names = {name for name, is_folder in self._entries(aside.path) if is_folder and _NAME.fullmatch(name)}
        withdrawn = {name for name in names if aside.folders(name) or aside.folder_names(f"{name}/forms")}
        return sorted({*self.models(), *self.forms(), *withdrawn})

    def withdrawn(self, model: str) -> list[int]:
        """Versions that were rolled back."""
        return self.folders(model, self.withdrawn_root)

    @property
    def withdrawn_root(self) -> str:
        """The folder beside the repository that keeps rolled-back and pruned versions."""
        return self.path + WITHDRAWN

    @property
    def aside(self) -> Store:
        """The withdrawn versions, read as a repository."""
        return Store(self.fs, self.withdrawn_root, self.location + WITHDRAWN)

    def contract_path(self, model: str, version: int) -> str | None:
        """Path of a version's contract relative to the repository: beside its weights, or the model's contract."""
        beside_weights = f"{model}/{version}/{CONTRACT_FILE}"
        if self.has(beside_weights):
            return beside_weights
        newest = f"{model}/{CONTRACT_FILE}"
        return newest if self.has(newest) and self._contract(newest).version == version else None

    def contract(self, model: str, version: int) -> Contract:
        """Read the contract of a version.

        Raises:
            ModelError: the contract is absent or cannot be read.
        """
        path = self.contract_path(model, version)
        if path is None:
            raise ModelError(f"{self.location}: expected a contract of {model} version {version}, found none")
        found = self._contract(path)
        if (found.name, found.version) != (model, version):
            raise ModelError(
                f"{self.location}/{path}: expected the contract of {model} version {version}, found the contract "
                f"of {found.name} version {found.version}"
            )
        return found

    def digest(self, model: str, version: int) -> str:
        """SHA-256 of a version's weights, hexadecimal.

        Raises:
            ModelError: the weights are absent.
        """
        path = f"{model}/{version}/{WEIGHTS}"
        if not self.has(path):
            raise ModelError(f"{self.location}: expected {path}, found none")
        digest = hashlib.sha256()
        with self.fs.open_input_stream(f"{self.path}/{path}") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        return digest.hexdigest()

    def verify(self, model: str, version: int) -> Contract:
        """Check that the weights of a version match its contract, and return the contract.

        Raises:
            ModelError: the weights do not match.
        """
        contract = self.contract(model, version)
        found = self.digest(model, version)
        if found != contract.torchscript_sha256:
            raise ModelError(
                f"{self.location}: {model} version {version} has weights of sha256 {found}, its contract expects "
                f"{contract.torchscript_sha256}"
            )
        return contract

    def files(self, folder: str) -> Iterator[str]:
        """Paths of the files below a folder of the repository, relative to it, in any order."""
        from pyarrow.fs import FileSelector, FileType

        root = f"{self.path}/{folder}"
        for info in self.fs.get_file_info(FileSelector(root, recursive=True, allow_not_found=True)):
            if info.type == FileType.File:
                yield info.path[len(root) + 1 :]

    def has(self, path: str) -> bool:
        """Whether a file exists."""
        from pyarrow.fs import FileType

        return bool(self.fs.get_file_info(f"{self.path}/{path}").type == FileType.File)

    def _contract(self, path: str) -> Contract:
        with self.fs.open_input_stream(f"{self.path}/{path}") as file:
            text = file.read()
        try:
            return Contract.model_validate_json(text)
        except ValidationError as error:
            raise ModelError(f"{self.location}/{path} is not a contract: {problems_text(error)}") from error

    def _entries(self, folder: str) -> list[tuple[str, bool]]:
        from pyarrow.fs import FileSelector, FileType

        found = self.fs.get_file_info(FileSelector(folder, allow_not_found=True))
        return [(info.base_name, info.type == FileType.Directory) for info in found]


def copy(source: Store, path: str, target: Store, to: str) -> None:
    """Copy one file between repositories; both paths are absolute within their file systems."""
    if target.fs.type_name not in WITHOUT_FOLDERS:
        target.fs.create_dir(to.rpartition("/")[0], recursive=True)
    with source.fs.open_input_stream(path) as file, target.fs.open_output_stream(to) as out:
        shutil.copyfileobj(file, out)


def open_store(location: str) -> Store:
    """Open a repository: `model_repo`, `file:///...`, `s3://bucket/models?region=...`, `gs://...` or `abfss://...`.

    Raises:
        ModelError: Arrow does not support the URI, or it names the root of a bucket.
    """
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem, LocalFileSystem

    if "://" not in location:
        absolute = str(Path(location).absolute())
        return Store(LocalFileSystem(), absolute.rstrip("/"), location)
    try:
        fs, path = FileSystem.from_uri(location)
    except (ArrowException, OSError, ValueError) as error:
        raise ModelError(f"expected a path, or a URI of s3, gs, abfss or file, found {location!r}: {error}") from error
    path = path.rstrip("/")
    if "/" not in path.strip("/") and fs.type_name != "local":
        raise ModelError(
            f"expected a folder in a bucket, found {location!r}: rolled-back versions are kept beside the repository"
        )
    return Store(fs, path, location.partition("?")[0].rstrip("/"))


def local_path(store: Store) -> Path | None:
    """The folder of a repository on a local disk, None for other repositories."""
    return Path(store.path) if store.fs.type_name == "local" else None
