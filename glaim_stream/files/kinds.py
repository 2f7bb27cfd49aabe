"""Predicates on the Arrow types of a file's columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def is_text(kind: Any) -> bool:
    """Whether the type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(kind: Any) -> bool:
    """Whether the type is a number or that of an empty column."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind))
