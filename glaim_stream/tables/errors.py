"""Errors of tables. They are errors of Python's own kinds too, which scikit-learn's users expect."""

from __future__ import annotations

from glaim_stream.core.errors import SettingsError


class TableError(SettingsError, ValueError):
    """A table cannot be filled as asked."""


class TableTypeError(SettingsError, TypeError):
    """A table, or one of its columns, is of a type that cannot be filled."""
