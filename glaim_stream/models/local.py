"""Changes to a repository on a disk that Triton reads at the same time; each change is one atomic rename."""

from __future__ import annotations

import errno
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from glaim_stream.errors import ModelError
from glaim_stream.models.contract import CONTRACT_FILE, read_contract

WITHDRAWN, STAGING = ".withdrawn", ".staging"
_ABANDONED_S = 86_400.0


def versions(directory: Path) -> list[int]:
    """The versions of a model that are there, ascending; its name is the folder's."""
    if not directory.is_dir():
        return []
    return sorted(int(entry.name) for entry in directory.iterdir() if entry.is_dir() and entry.name.isdigit())


def withdrawn(directory: Path) -> Path:
    """The folder for a model's rolled-back versions."""
    repository = directory.parent.absolute()
    return repository.with_name(repository.name + WITHDRAWN) / directory.name


def highest_ever(directory: Path) -> int:
    """The highest version that a model has or had; 0 for none. A number that was given once stays with its weights."""
    return max([*versions(directory), *versions(withdrawn(directory))], default=0)


@contextmanager
def staging(repository: Path) -> Iterator[Path]:
    """A new folder beside a repository, from which a rename into it is whole or nothing; removed at the end.

    Raises:
        ModelError: nothing can be written there.
    """
    repository = repository.absolute()
    parent = repository.with_name(repository.name + STAGING)
    try:
        repository.mkdir(parents=True, exist_ok=True)
        parent.mkdir(exist_ok=True)
        _remove_old(parent)
        folder = Path(tempfile.mkdtemp(dir=parent))
        folder.chmod(0o755)  # mkdtemp's 0700 would travel along, and Triton is another user
    except OSError as error:
        raise ModelError(
            f"expected to write in {repository} and beside it, in {parent}: {error.strerror}. Where the repository is "
            f"the root of a volume, use a folder in it"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # somebody else is at work in it
            parent.rmdir()


def _remove_old(parent: Path) -> None:
    """Remove folders that killed processes left behind; no process needs a day until its rename."""
    for folder in parent.iterdir():
        if time.time() - folder.stat().st_mtime > _ABANDONED_S:
            shutil.rmtree(folder, ignore_errors=True)


def join(made: Path, target: Path, version: int) -> None:
    """Put a new version beside those that are there, never leaving a reader with half of it.

    Each step is one rename. The contract of the model comes last: until then it names the version before, whose weights
    stay where they are. Triton, which looks at folders, may answer with the new version a moment earlier; the tensors
    are the same, each answer says which version made it, and the version's own contract came with its weights.
    Configuration and warm-up window are left as they are: an operator may have changed the instance count.

    Args:
        made: A folder with `<version>/` and the contract, on the same file system.
        target: The model's folder.
        version: The new version.
    """
    _keep_contract(target)
    move(made / str(version), target / str(version))
    try:
        (made / CONTRACT_FILE).rename(target / CONTRACT_FILE)
    except OSError:
        shutil.rmtree(target / str(version))
        raise


def move(source: Path, target: Path) -> None:
    """Rename, or say what keeps it from being one step.

    Raises:
        ModelError: the two lie on different file systems, or the target is there.
    """
    try:
        source.rename(target)
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise ModelError(f"expected {source.parent} and {target.parent} on one file system, found two") from error
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise ModelError(f"expected no {target} yet, found one: somebody else has just put it there") from error
        raise


def restore_contract(target: Path, version: int) -> None:
    """Make a version's contract the model's, whole or not at all.

    Raises:
        ModelError: the version has none of its own.
    """
    own = target / str(version) / CONTRACT_FILE
    if not own.is_file():
        raise ModelError(f"expected {own}, found none: what version {version} promised is not known any more")
    partial = target / f"{CONTRACT_FILE}.partial"
    shutil.copyfile(own, partial)
    partial.replace(target / CONTRACT_FILE)


def _keep_contract(target: Path) -> None:
    """Repositories from before versions had contracts of their own: the newest one's would be written over."""
    if not (target / CONTRACT_FILE).is_file():
        return
    folder = target / str(read_contract(target).version)
    if folder.is_dir() and not (folder / CONTRACT_FILE).exists():
        shutil.copyfile(target / CONTRACT_FILE, folder / CONTRACT_FILE)
