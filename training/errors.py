"""The exceptions of training; each message states what was expected and what was found.

GlaimError (glaim_stream.core.errors)
└── TrainingError
    ├── ConfigError        a run's configuration cannot be used
    │   └── NetworkTooSlow the time does not suffice for a network
    ├── DataError          the data cannot be used
    └── ExportError        a trained model cannot be served as it is
        └── ExportRefused  it is no better than the baselines; exit code 3, overruled by --force-export
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from glaim_stream.core.errors import GlaimError

Arguments = ParamSpec("Arguments")


class TrainingError(GlaimError):
    """Base class of all exceptions of training."""


class ConfigError(TrainingError):
    """A run's configuration cannot be used."""


class NetworkTooSlow(ConfigError):
    """The time that was given does not suffice for the smallest network; the closed form needs none."""


class DataError(TrainingError):
    """The data cannot be used."""


class ExportError(TrainingError):
    """A trained model cannot be served as it is."""


class ExportRefused(ExportError):
    """A trained model is no better than the baselines; the version served before stays."""

    exit_code = 3  # not 2, so that a scheduled retraining can tell "not good enough" from "could not be done"


def print_error(text: str) -> None:
    """Print a line on standard error, from the first of the processes that torchrun started."""
    if os.environ.get("RANK", "0") == "0":
        print(text, file=sys.stderr)


def exits_with_errors(main: Callable[Arguments, int]) -> Callable[Arguments, int]:
    """Make a command line print an expected error as one sentence on standard error instead of a traceback.

    The exit code is then 2, or 3 when a model was refused.
    """

    @wraps(main)
    def command(*args: Arguments.args, **kwargs: Arguments.kwargs) -> int:
        try:
            return main(*args, **kwargs)
        except ExportRefused as refused:
            print_error(f"refused: {refused}")
            return refused.exit_code
        except GlaimError as error:
            print_error(f"error: {error}")
            return 2
        except OSError as error:
            if not isinstance(error.filename, str | os.PathLike):
                raise
            print_error(f"error: {os.fspath(error.filename)}: {error.strerror}")
            return 2

    return command
