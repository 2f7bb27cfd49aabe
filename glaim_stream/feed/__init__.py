"""Sends readings of a file or the simulated plant to the input topic, at a chosen speed and with optional dropouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glaim_stream.core.doors import opened

if TYPE_CHECKING:
    from glaim_stream.feed.dropouts import KINDS, hide, write_hidden
    from glaim_stream.feed.formats import InputFormat
    from glaim_stream.feed.messages import plan_messages
    from glaim_stream.feed.producing import ProduceReport, dry_run, produce
    from glaim_stream.feed.sources import Source, plant_source, read_source

__all__ = [
    "KINDS",
    "InputFormat",
    "ProduceReport",
    "Source",
    "dry_run",
    "hide",
    "plan_messages",
    "plant_source",
    "produce",
    "read_source",
    "write_hidden",
]

__getattr__ = opened(__name__)
