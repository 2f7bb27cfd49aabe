"""The folder of a model's closed form: in the repository, or of this process alone where that cannot be written."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from glaim_stream.models.contract import FORM_FILE


def form_folder(repository: Path, model: str, *, learned: bool) -> Path:
    """Return the folder in which a model's closed form is looked for.

    Args:
        repository: the model repository.
        model: name of the model.
        learned: whether this process has its form learned. Where it can neither read nor write one in the repository,
            it gets a temporary folder.
    """
    folder = repository / model
    if not learned or can_write(folder) or (folder / FORM_FILE).exists():
        return folder
    return _temporary() / model


def can_write(folder: Path) -> bool:
    """Whether files can be created in a folder, which is created first if it is absent."""
    existing = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    return os.access(existing, os.W_OK | os.X_OK)


@cache
def _temporary() -> Path:
    folder = tempfile.mkdtemp(prefix="glaim-learned-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
