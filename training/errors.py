"""What training raises on purpose; each message says what was expected and what was found.

GlaimError (glaim_stream.errors)
└── TrainingError
├── ConfigError    a run's configuration cannot be used
├── DataError      the data cannot be used
└── ExportError    a trained model may not be served as it is
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
    """A trained model may not be served as it is."""
