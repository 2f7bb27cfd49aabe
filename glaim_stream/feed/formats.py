"""The formats of a message of the input topic. Without further imports, so that --help stays fast."""

from __future__ import annotations

from enum import StrEnum


class InputFormat(StrEnum):
    """How readings are put into messages."""

    SINGLE = "single"  # one reading
    STEP = "step"  # the readings of one group at one time
    BATCH = "batch"  # many readings of one group, JSON
    ARROW = "arrow"  # the same as an Arrow stream
