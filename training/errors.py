"""What training raises on purpose; each message says what was expected and what was found.

GlaimError (glaim_stream.errors)
└── TrainingError
    ├── ConfigError        a run's configuration cannot be used
    ├── DataError          the data cannot be used
    └── ExportError        a trained model cannot be served as it is
        └── ExportRefused  ... because it is no better than what costs nothing; exit code 3, and --force overrules it
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps

from glaim_stream.errors import GlaimError

Main = Callable[[Sequence[str] | None], int]


class TrainingError(GlaimError):
    """Base of the family."""


class ConfigError(TrainingError):
    """A run's configuration cannot be used."""


class DataError(TrainingError):
    """The data cannot be used."""


class ExportError(TrainingError):
    """A trained model cannot be served as it is."""


class ExportRefused(ExportError):
    """A trained model is no better than the baselines; what was served before stays."""

    exit_code = 3  # not 2, so that a scheduled retraining can tell "not good enough" from "could not be done"


def complain(text: str) -> None:
    """A line on standard error, once, however many processes torchrun started."""
    if os.environ.get("RANK", "0") == "0":
        print(text, file=sys.stderr)


def in_sentences(main: Main) -> Main:
    """A command line that ends in a sentence on standard error, never in a traceback, when something was expected.

    The exit code is then 2, or 3 when a model was refused.
    """

    @wraps(main)
    def command(arguments: Sequence[str] | None = None) -> int:
        try:
            return main(arguments)
        except ExportRefused as refused:
            complain(f"refused: {refused}")
            return refused.exit_code
        except GlaimError as error:
            complain(f"error: {error}")
            return 2

    return command
