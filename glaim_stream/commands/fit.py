"""`glaim-stream fit`."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import typer

_MODULE = "training.fit"
_NEEDED = ("training", "torch", "tqdm")

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def fit(context: typer.Context) -> None:
    """Train a model on a file of readings: python -m training.fit, with the same flags.

    It runs as a process of its own, because nothing of the stream may need torch.
    """
    from glaim_stream.core.errors import SettingsError

    absent = [name for name in _NEEDED if find_spec(name) is None]
    if absent:
        raise SettingsError(
            f"fit needs the extra `training`, found no {', '.join(absent)}: pip install 'glaim-stream[training]'; "
            "without it, `glaim-stream learn` fits the closed form"
        )
    command = [sys.executable, "-m", _MODULE, *context.args]
    sys.stdout.flush()
    if os.name == "posix":
        os.execv(sys.executable, command)  # noqa: S606 - the process is replaced, so that signals reach the training
    raise typer.Exit(subprocess.run(command, check=False).returncode)
