"""Replays files and topic ranges through the worker's engine to a topic or a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glaim_stream.core.doors import opened

if TYPE_CHECKING:
    from glaim_stream.feed.replay.files import (
        RAW_ENDINGS,
        Content,
        Dealer,
        Messages,
        holds_messages,
        messages_of,
        raw_messages,
    )
    from glaim_stream.feed.replay.parts import Job, replay_file, replay_topic
    from glaim_stream.feed.replay.run import ReplayReport, Target
    from glaim_stream.feed.replay.warmup import nothing_before, warm_up_range

__all__ = [
    "RAW_ENDINGS",
    "Content",
    "Dealer",
    "Job",
    "Messages",
    "ReplayReport",
    "Target",
    "holds_messages",
    "messages_of",
    "nothing_before",
    "raw_messages",
    "replay_file",
    "replay_topic",
    "warm_up_range",
]

__getattr__ = opened(__name__)
