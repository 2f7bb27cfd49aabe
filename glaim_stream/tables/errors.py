"""Errors of tables. They also derive from Python's own errors, as users of scikit-learn expect."""

from __future__ import annotations

from glaim_stream.core.errors import SettingsError


class TableError(SettingsError, ValueError):
    """A table cannot be filled as asked."""


class TableTypeError(SettingsError, TypeError):
    """A table, or one of its columns, has a type that cannot be filled."""
