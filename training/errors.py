"""What training raises on purpose; each message says what was expected and what was found.

GlaimError (glaim_stream.errors)
└── TrainingError
    ├── ConfigError        a run's configuration cannot be used
    ├── DataError          the data cannot be used
    └── ExportError        a trained model cannot be served as it is
        └── ExportRefused  ... because it is no better than what costs nothing; exit code 3, and --force overrules it
"""

from __future__ import annotations

from glaim_stream.errors import GlaimError


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
