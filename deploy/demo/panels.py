"""Charts of sensors over time with observed, hidden and filled values, in SVG. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from deploy.demo.grid import Floats
from deploy.demo.measure import Measured
from glaim_stream.core.drawing import ChartSize, Curves, number, sensor_chart, time_marks
from glaim_stream.output import Method

MOST_PANELS = 6


@dataclass(frozen=True)
class Size(ChartSize):
    """Size of a drawing, and how many steps and times it has."""

    steps: int = 0
    times: int = 0


# A drawing of each size is on the page, and the style sheet shows one: text of a scaled drawing would be too small on a
# phone.
SIZES = (Size(1060, 186, 58, "wide", 168, 7), Size(320, 190, 46, "narrow", 72, 3))


_NAMES = ("group", "sensor")  # the fields of a panel that are no series


@dataclass(frozen=True)
class Panel:
    """A section of one sensor's series, as arrays [T]."""

    group: str
    sensor: str
    times_ms: NDArray[np.int64]
    observed: Floats
    truth: Floats
    filled: Floats
    lower: Floats
    upper: Floats
    interpolation: Floats

    def for_size(self, size: Size) -> Panel:
        """The section with the most hidden values, of as many steps as a drawing of this size has."""
        if len(self.times_ms) <= size.steps:
            return self
        part = _most_hidden(self.truth, size.steps)
        series = {each.name: getattr(self, each.name)[part] for each in fields(self) if each.name not in _NAMES}
        return replace(self, **series)


def choose(measured: Measured) -> list[Panel]:
    """Up to MOST_PANELS sections of different sensors, in turn from different groups.

    Of each sensor the section with the most hidden values is chosen, regardless of how well they were filled.
    """
    grid = measured.grid
    width = min(SIZES[0].steps, grid.steps)
    panels: list[Panel] = []
    for row in _spread(len(grid.sensors)):
        column = len(panels) % len(grid.groups)
        panels.append(_panel(measured, column, row, _most_hidden(measured.truth[column, row], width)))
    return panels


def draw(panel: Panel, unit: str, size: Size = SIZES[0]) -> str:
    """One panel as SVG."""
    curves = Curves(panel.observed, panel.filled, panel.lower, panel.upper, panel.interpolation, panel.truth)
    marks = time_marks(int(panel.times_ms[0]), int(panel.times_ms[-1]), len(panel.times_ms), size.times)
    pairs = zip(panel.truth, panel.filled, strict=True)
    tips = [f"hidden {number(truth, 4)}, filled {number(filled, 4)} {unit}" for truth, filled in pairs]
    label = f"{panel.group} {panel.sensor}: observed, hidden and filled over time"
    return sensor_chart(curves, size, marks, label, tips)


def _most_hidden(truth: Floats, width: int) -> slice:
    """The section of a series with the most hidden values, of `width` steps."""
    counts = np.convolve(np.isfinite(truth), np.ones(width), mode="valid")
    # A section in which nearly all values are hidden leaves no observed values to compare with.
    counts[counts > 0.45 * width] = -1
    start = int(counts.argmax())
    return slice(start, start + width)


def _spread(sensors: int) -> list[int]:
    count = min(MOST_PANELS, sensors)
    return sorted({round(index * (sensors - 1) / max(1, count - 1)) for index in range(count)})


def _panel(measured: Measured, column: int, row: int, part: slice) -> Panel:
    def best(name: str, field: str) -> Floats:
        """The final estimate, or the first one where there is no final one yet."""
        each = measured.contenders[name]
        final, first = getattr(each.final, field), getattr(each.provisional, field)
        has_final = each.final.method[column, row, part] >= Method.OBSERVED
        values: Floats = np.where(has_final, final[column, row, part], first[column, row, part])
        return values

    return Panel(
        measured.grid.groups[column],
        measured.grid.sensors[row],
        measured.grid.times_ms[part],
        measured.result.observed[column, row, part],
        measured.truth[column, row, part],
        best("model", "value"),
        best("model", "lower"),
        best("model", "upper"),
        best("interpolation", "value"),
    )
