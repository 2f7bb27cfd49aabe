"""Decode, window, impute, blend and repair, without Kafka: driven by the worker and by replays alike."""

from glaim_stream.pipeline.accuracy import WITHHELD
from glaim_stream.pipeline.engine import PartitionEngine, Pending
from glaim_stream.pipeline.isolation import Isolation, copy_windows
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.pipeline.restore import Restore, Restored

__all__ = [
    "WITHHELD",
    "Isolation",
    "PartitionEngine",
    "Pending",
    "Pipeline",
    "Restore",
    "Restored",
    "copy_windows",
]
