"""Learns the closed form of a model from readings, and places it where workers find it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glaim_stream.core.doors import opened

if TYPE_CHECKING:
    from glaim_stream.operate.learn.collect import MOST_READINGS, Collector
    from glaim_stream.operate.learn.place import Learned, learn, target

__all__ = [
    "MOST_READINGS",
    "Collector",
    "Learned",
    "learn",
    "target",
]

__getattr__ = opened(__name__)
