"""The figures of a sensor on a day, and their sums."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import METHODS, Method

FILLED_BY = tuple(METHODS[method] for method in Method if method not in (Method.OBSERVED, Method.NONE))

# Counts are of cells: a sensor's due readings, one a step, or one a cadence. A day of steps of 1 ms fits into 32 bits.
FIGURES = np.dtype(
    [
        ("day", "<i4"),
        ("expected", "<i4"),
        ("arrived", "<i4"),  # cells with a reading in the end
        ("good", "<i4"),  # arrived cells with quality good
        ("late", "<i4"),  # the reading came after the step had closed
        ("too_late", "<i4"),  # late cells whose reading came after the window had passed: the cell did not get it
        *((method, "<i4") for method in FILLED_BY),
        ("null", "<i4"),
        ("without_row", "<i4"),  # null cells without any row, as of a group that is dark
        ("longest_gap", "<i4"),  # most consecutive cells without a reading, within the day
        ("delays", "<i4"),  # readings whose delay is known
        ("delay_ms", "<f8"),  # sum of the known delays
    ]
)
_SUMMED = [name for name in FIGURES.names or () if name not in ("day", "longest_gap")]

Figures = NDArray[np.void]  # rows of FIGURES


@dataclass(frozen=True, slots=True)
class SensorDays:
    """One sensor of a group: figures [days] of the days with expected cells.

    cell_ms: length of a cell in time.
    longest_gap: most consecutive cells without a reading, also across midnight.
    """

    group: str
    sensor: str
    cell_ms: int
    figures: Figures
    longest_gap: int

    @property
    def total(self) -> dict[str, Any]:
        """The sums over its days, by name."""
        return {**summed(self.figures), "longest_gap": self.longest_gap}


def summed(figures: Figures) -> dict[str, Any]:
    """Sums of all figures that can be added, by name."""
    return {name: figures[name].sum().item() for name in _SUMMED}


def by_day(parts: Iterable[SensorDays], days: int) -> Figures:
    """Figures of all sensors together, [days]; a day's longest gap is that of the sensor with the longest one."""
    out = np.zeros(days, FIGURES)
    out["day"] = np.arange(days)
    for part in parts:
        at = part.figures["day"]
        for name in _SUMMED:
            out[name][at] += part.figures[name]
        out["longest_gap"][at] = np.maximum(out["longest_gap"][at], part.figures["longest_gap"])
    return out


def percent(part: float, whole: float) -> float | None:
    """The share in percent; None if the whole is 0."""
    return 100.0 * part / whole if whole else None
