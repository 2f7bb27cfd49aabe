"""Explains a published value: the window from which it was filled, and the contribution of each reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glaim_stream.core.doors import opened

if TYPE_CHECKING:
    from glaim_stream.operate.explain.estimates import CellEstimates, Estimate
    from glaim_stream.operate.explain.explained import Explained, Means, Row, explain_published, explain_unpublished
    from glaim_stream.operate.explain.network import network_answers
    from glaim_stream.operate.explain.parts import Answers
    from glaim_stream.operate.explain.topic import PublishedRow, find_published, read_input

__all__ = [
    "Answers",
    "CellEstimates",
    "Estimate",
    "Explained",
    "Means",
    "PublishedRow",
    "Row",
    "explain_published",
    "explain_unpublished",
    "find_published",
    "network_answers",
    "read_input",
]

__getattr__ = opened(__name__)
