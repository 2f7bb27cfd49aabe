"""The page of a worker: its groups, and the live window of one, in a browser. It reads and changes nothing."""

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
