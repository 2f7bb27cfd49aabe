"""Replays files and topic ranges through the worker's engine to a topic or a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glaim_stream.core.doors import opened

if TYPE_CHECKING:
    from glaim_stream.feed.replay.files import RAW_ENDINGS, Dealer, Messages, holds_messages, planned, raw_messages
    from glaim_stream.feed.replay.run import ReplayReport, Target, replay_messages, replay_ranges
    from glaim_stream.feed.replay.warmup import nothing_before, warm_up_range

__all__ = [
    "RAW_ENDINGS",
    "Dealer",
    "Messages",
    "ReplayReport",
    "Target",
    "holds_messages",
    "nothing_before",
    "planned",
    "raw_messages",
    "replay_messages",
    "replay_ranges",
    "warm_up_range",
]

__getattr__ = opened(__name__)
