"""Repairs sensor streams while they flow, and tables in memory: `from glaim_stream import impute, Imputer`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glaim_stream.core.doors import opened

if TYPE_CHECKING:
    from glaim_stream.tables.impute import impute
    from glaim_stream.tables.imputer import Imputer

__all__ = ["Imputer", "impute"]

__getattr__ = opened(__name__)  # commands start without what fills tables


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
