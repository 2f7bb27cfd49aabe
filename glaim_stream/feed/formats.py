"""The formats of messages on the input topic. This module imports nothing else, so that --help stays fast."""

from __future__ import annotations

from enum import StrEnum


class InputFormat(StrEnum):
    """A format of messages."""

    SINGLE = "single"  # one reading
    STEP = "step"  # the readings of one group at one time
    BATCH = "batch"  # many readings of one group, JSON
    ARROW = "arrow"  # many readings of one group, Arrow stream
