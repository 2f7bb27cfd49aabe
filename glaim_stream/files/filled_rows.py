"""Detects tables of filled rows by their columns, so that filled values are never read back as measurements."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.vocabulary import DOUBTFUL, METHODS
from glaim_stream.files.kinds import is_text

OF_ROWS = frozenset({"method", "observed", "value"})  # columns of output rows, as `tail` and `replay` write them
_OF_HOLES = frozenset({"method", "value", "lower", "upper"})  # columns of `fill --flags-out`
_STATED = frozenset({*METHODS, DOUBTFUL, "", None})
_BESIDE = re.compile(r"(.+)_(method|lower|upper)_*")  # columns of `fill --flags`, which adds _ to a taken name


def require_no_filled_rows(columns: Mapping[str, Any], name: str) -> None:
    """Reject a table that holds filled values, from any kind of file.

    Args:
        columns: Arrow arrays by name.
        name: name of the file, for the message.

    Raises:
        SettingsError: the columns are those of filled rows, or those that `fill` writes beside filled columns.
    """
    if columns.keys() >= OF_ROWS:
        raise SettingsError(refusal(name, OF_ROWS))
    if columns.keys() >= _OF_HOLES and _states_methods(columns["method"]):
        raise SettingsError(refusal(name, _OF_HOLES))
    beside: dict[str, dict[str, str]] = {}
    for column in columns:
        if (match := _BESIDE.fullmatch(column)) is not None and match[1] in columns:
            beside.setdefault(match[1], {})[match[2]] = column
    for found in beside.values():
        if len(found) == 3 and _states_methods(columns[found["method"]]):
            raise SettingsError(f"{refusal(name, found.values())}; take the file that was filled")


def refusal(name: str, columns: Collection[str]) -> str:
    """The message about a file of filled rows."""
    told = ", ".join(repr(each) for each in sorted(columns))
    return (
        f"{name}: expected readings, found filled rows, which must not be learned or sent as readings "
        f"(the columns {told})"
    )


def _states_methods(column: Any) -> bool:
    """Whether all cells of a column are names of methods."""
    return is_text(column.type) and set(column.unique().to_pylist()) <= _STATED
