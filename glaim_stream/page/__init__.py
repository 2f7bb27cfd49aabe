"""The read-only page of a worker: shows its groups and the live window of one in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glaim_stream.core.doors import opened

if TYPE_CHECKING:
    from glaim_stream.page.page import Page, page_of

__all__ = [
    "Page",
    "page_of",
]

__getattr__ = opened(__name__)
