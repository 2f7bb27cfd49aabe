"""The folder of a model's closed form: in the repository, or a temporary one if the repository is read-only."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from glaim_stream.core.contract import FORM_FILE

_PREFIX = "glaim-learned-"


def form_folder(repository: Path, model: str, *, learned: bool) -> Path:
    """Return the folder of a model's closed form.

    Args:
        repository: the model repository.
        model: name of the model.
        learned: True if this process has its form learned. If it can neither read nor write one in the repository,
            it gets a temporary folder.
    """
    folder = repository / model
    if not learned or can_write(folder) or (folder / FORM_FILE).exists():
        return folder
    return _temporary() / "repository" / model  # former forms are kept beside it


def can_write(folder: Path) -> bool:
    """Whether files can be created in a folder, which is created first if it is absent."""
    existing = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    return os.access(existing, os.W_OK | os.X_OK)


@cache
def _temporary() -> Path:
    """The temporary folder of this process; those of processes that were killed are removed."""
    root = Path(tempfile.gettempdir())
    for left in root.glob(f"{_PREFIX}*"):
        if (handle := _locked(left)) is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(handle)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        if _locked(folder) is not None and folder.exists():  # until the process ends
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            return folder


def _locked(folder: Path) -> int | None:
    """Lock a folder and return its handle; None if its process lives, or if it is another user's."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        import fcntl  # late: Windows lacks it, and no worker runs there

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
