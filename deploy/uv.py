"""The package installer uv, which `make setup` puts beside this interpreter."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from deploy.errors import FetchError


def find_uv() -> str:
    """The `uv` beside this interpreter, or the one on PATH.

    Raises:
        FetchError: There is neither.
    """
    beside = Path(sys.executable).with_name("uv")
    program = str(beside) if beside.exists() else shutil.which("uv")
    if program is None:
        raise FetchError("the installer uv was not found: run `make setup`, which installs it")
    return program
