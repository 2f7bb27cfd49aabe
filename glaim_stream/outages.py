"""Outages: a group of which nothing at all is heard, and its return. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

UNKNOWN_MS = -1


@dataclass(frozen=True, slots=True)
class Outage:
    """One group went dark, or speaks again.

    `by_clock` tells what the wall clock says from what event time says: only the latter is a function of the topic.
    """

    model_index: int
    group: int  # the group's code (groups.GroupIndex)
    kind: Literal["dark", "speaks"]
    ts_ms: int  # start of the step
    last_ts_ms: int  # start of the last step before it in which the group was observed; UNKNOWN_MS when none is known
    by_clock: bool
