"""Figures as text for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from glaim_stream.core.times import zone_of
from glaim_stream.operate.completeness.figures import FILLED_BY, percent
from glaim_stream.tables import method_name

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
NOTHING = "–"


def percent_text(part: float, whole: float) -> str:
    """A share in percent, rounded towards the middle: 100 means all of it and 0 nothing."""
    share = percent(part, whole)
    if share is None:
        return NOTHING
    if 0 < share < 0.1:
        return "<0.1"
    return "100" if part >= whole else f"{math.floor(share * 10 + 1e-9) / 10:.1f}"


def duration_text(milliseconds: float) -> str:
    """A duration in a unit of which it has exactly one or at least two, in two or three digits."""
    for length, unit in _UNITS:
        if abs(milliseconds) == length or abs(milliseconds) >= 2 * length:
            return f"{milliseconds / length:.3g} {unit}"
    return f"{milliseconds:.3g} ms"


def stretch_text(begin_ms: int, end_ms: int, timezone: str) -> str:
    """A stretch of time in the clock time of a zone, to the minute."""
    zone = zone_of(timezone)
    begin, end = (f"{datetime.fromtimestamp(each / 1000, zone):%Y-%m-%d %H:%M}" for each in (begin_ms, end_ms))
    return f"{begin} to {end}, {timezone}"


def delay_text(found: Mapping[str, Any]) -> str:
    """The mean delay of readings."""
    return duration_text(found["delay_ms"] / found["delays"]) if found["delays"] else NOTHING


def gap_text(cells: int, cell_ms: int) -> str:
    """A gap as a duration; empty if there is none."""
    return duration_text(cells * cell_ms) if cells else NOTHING


def filled(found: Mapping[str, Any]) -> int:
    """Number of cells that were filled, by any method."""
    return sum(int(found[method]) for method in FILLED_BY)


def methods_text(found: Mapping[str, Any]) -> str:
    """The filled cells by method, the most frequent first."""
    counts = sorted(((int(found[method]), method) for method in FILLED_BY), reverse=True)
    return ", ".join(f"{count:,} {method_name(name)}" for count, name in counts if count)
