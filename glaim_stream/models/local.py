"""Changes to a repository on a disk that Triton reads at the same time; each change is one atomic rename."""

from __future__ import annotations

import errno
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from glaim_stream.core.contract import CONTRACT_FILE, read_contract
from glaim_stream.core.errors import ModelError

WITHDRAWN, STAGING = ".withdrawn", ".staging"
_ABANDONED_S = 86_400.0


def version_numbers(directory: Path) -> list[int]:
    """The versions in a model's folder, ascending."""
    if not directory.is_dir():
        return []
    return sorted(int(entry.name) for entry in directory.iterdir() if entry.is_dir() and entry.name.isdigit())


def withdrawn(directory: Path) -> Path:
    """The folder for a model's rolled-back versions."""
    repository = directory.parent.absolute()
    return repository.with_name(repository.name + WITHDRAWN) / directory.name


def all_withdrawn(directory: Path) -> bool:
    """Whether a model has neither version nor contract because each version was withdrawn."""
    here = bool(version_numbers(directory)) or (directory / CONTRACT_FILE).exists()
    return not here and bool(version_numbers(withdrawn(directory)))


def highest_ever(directory: Path) -> int:
    """The highest version that a model has or had, 0 for none; a version number is never reused for other weights."""
    return max([*version_numbers(directory), *version_numbers(withdrawn(directory))], default=0)


@contextmanager
def staging(repository: Path) -> Iterator[Path]:
    """Create a temporary folder beside a repository, on the same file system, so that a rename into it is atomic.

    Raises:
        ModelError: the folder cannot be created.
    """
    repository = repository.absolute()
    parent = repository.with_name(repository.name + STAGING)
    try:
        repository.mkdir(parents=True, exist_ok=True)
        parent.mkdir(exist_ok=True)
        _remove_old(parent)
        folder = Path(tempfile.mkdtemp(dir=parent))
        folder.chmod(0o755)  # mkdtemp's 0700 would survive the rename, and Triton runs as another user
    except OSError as error:
        raise ModelError(
            f"expected to write in {repository} and beside it, in {parent}: {error.strerror}. Where the repository is "
            f"the root of a volume, use a folder in it"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another process uses it
            parent.rmdir()


def _remove_old(parent: Path) -> None:
    """Remove folders that killed processes left behind; no process needs a day until its rename."""
    for folder in parent.iterdir():
        if time.time() - folder.stat().st_mtime > _ABANDONED_S:
            shutil.rmtree(folder, ignore_errors=True)


def join(made: Path, target: Path, version: int) -> None:
    """Add a new version to a model without exposing an incomplete one to readers.

    Each step is one rename. The model's contract is replaced last: until then it names the previous version, whose
    weights stay in place. Triton watches the folders and may serve the new version a moment earlier. This is harmless:
    the tensors are the same, each response states its version, and the version's folder contains its contract.
    The configuration and the warm-up window stay unchanged: an operator may have changed the instance count.

    Args:
        made: A folder with `<version>/` and the contract, on the same file system.
        target: The model's folder.
        version: The new version.
    """
    keep_contract(target)
    move(made / str(version), target / str(version))
    try:
        (made / CONTRACT_FILE).rename(target / CONTRACT_FILE)
    except OSError:
        shutil.rmtree(target / str(version))
        raise


def move(source: Path, target: Path) -> None:
    """Rename a folder atomically.

    Raises:
        ModelError: source and target are on different file systems, or the target exists.
    """
    try:
        source.rename(target)
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise ModelError(f"expected {source.parent} and {target.parent} on one file system, found two") from error
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise ModelError(f"expected no {target} yet, found one: another process has just created it") from error
        raise


def restore_contract(target: Path, version: int) -> None:
    """Make a version's contract the model's contract, atomically.

    Raises:
        ModelError: the version's folder has no contract.
    """
    version_contract = target / str(version) / CONTRACT_FILE
    if not version_contract.is_file():
        raise ModelError(f"expected {version_contract}, found none: the contract of version {version} is lost")
    partial = target / f"{CONTRACT_FILE}.partial"
    shutil.copyfile(version_contract, partial)
    partial.replace(target / CONTRACT_FILE)


def keep_contract(target: Path) -> None:
    """Copy the model's contract into its version's folder; older repositories lack it there and would lose it."""
    if not (target / CONTRACT_FILE).is_file():
        return
    folder = target / str(read_contract(target).version)
    if folder.is_dir() and not (folder / CONTRACT_FILE).exists():
        shutil.copyfile(target / CONTRACT_FILE, folder / CONTRACT_FILE)
