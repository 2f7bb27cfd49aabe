"""Reads dead letters and late readings from their topics, and sends them back to the input topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glaim_stream.core.doors import opened

if TYPE_CHECKING:
    from glaim_stream.operate.dlq.description import describe_letter
    from glaim_stream.operate.dlq.letters import Letter, LetterFilter, place_of
    from glaim_stream.operate.dlq.requeuing import RequeueReport, requeue
    from glaim_stream.operate.dlq.surveying import Survey, find_original, read_letters, survey

__all__ = [
    "Letter",
    "LetterFilter",
    "RequeueReport",
    "Survey",
    "describe_letter",
    "find_original",
    "place_of",
    "read_letters",
    "requeue",
    "survey",
]

__getattr__ = opened(__name__)
