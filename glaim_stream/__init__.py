"""Repairs sensor streams while they flow, and tables in memory: `from glaim_stream import impute, Imputer`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glaim_stream.tables.impute import impute
    from glaim_stream.tables.imputer import Imputer

__all__ = ["Imputer", "impute"]

_MODULES = {"Imputer": "glaim_stream.tables.imputer", "impute": "glaim_stream.tables.impute"}


def __getattr__(name: str) -> Any:
    """Import what fills tables when it is first used, so that commands start without it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
