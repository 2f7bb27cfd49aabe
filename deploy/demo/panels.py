"""Charts of sensors over time with observed, hidden and filled values, in SVG. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from deploy.demo.grid import Bools, Floats
from deploy.demo.measure import Measured
from glaim_stream.output import Method
from training.report import PixelScale, alike, element, number, path, text, ticks, time_ticks

_RIGHT, _TOP, _BOTTOM = 8, 8, 22
MOST_PANELS = 6


@dataclass(frozen=True)
class Size:
    """Size of a drawing in pixels, the room for labels of its vertical axis, and how many steps and times it has."""

    name: str
    width: int
    height: int
    left: int
    steps: int
    times: int


# A drawing of each size is on the page, and the style sheet shows one: text of a scaled drawing would be too small on a
# phone.
SIZES = (Size("wide", 1060, 186, 58, 168, 7), Size("narrow", 320, 190, 46, 72, 3))


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
    steps = np.arange(len(panel.times_ms))
    shown = np.concatenate([panel.observed, panel.truth, panel.filled, panel.lower, panel.upper])
    shown = shown[np.isfinite(shown)]
    low, high = (float(shown.min()), float(shown.max())) if shown.size else (0.0, 1.0)
    margin = 0.06 * (high - low or 1.0)
    x = PixelScale(0, max(1, len(steps) - 1), size.left, size.width - _RIGHT)
    y = PixelScale(low - margin, high + margin, size.height - _BOTTOM, _TOP)
    holes = ~np.isfinite(panel.observed)
    parts = [*_axes(panel, size, x, y, low, high)]
    for start, stop in _runs(holes & np.isfinite(panel.lower)):
        parts.append(element("path", class_="band", d=_band(panel, x, y, start, stop)))
    for start, stop in _runs(~holes):
        parts.append(_line("observed", x, y, panel.observed, start, stop))
    joined = np.where(holes, panel.filled, panel.observed)
    straight = np.where(holes, panel.interpolation, panel.observed)
    for start, stop in _runs(holes):
        reach = max(0, start - 1), min(len(steps), stop + 1)
        parts.append(_line("straight", x, y, straight, *reach))
        parts.append(_line("filled", x, y, joined, *reach))
    parts += [
        element("circle", _tip(panel, step, unit), class_="truth", cx=x(step), cy=y(panel.truth[step]), r=3)
        for step in np.flatnonzero(np.isfinite(panel.truth)).tolist()
    ]
    label = f"{panel.group} {panel.sensor}: observed, hidden and filled over time"
    view = f"0 0 {size.width} {size.height}"
    return element("svg", "".join(parts), class_=f"panel {size.name}", viewBox=view, role="img", aria_label=label)


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


def _axes(panel: Panel, size: Size, x: PixelScale, y: PixelScale, low: float, high: float) -> Iterator[str]:
    values = ticks(low, high)
    for value, label in zip(values, alike(values), strict=True):
        yield element("line", class_="grid", x1=size.left, x2=size.width - _RIGHT, y1=y(value), y2=y(value))
        yield text(size.left - 8, y(value) + 4, label, class_="tick", text_anchor="end")
    first_ms, last_ms = int(panel.times_ms[0]), int(panel.times_ms[-1])
    step_ms = (last_ms - first_ms) / max(1, len(panel.times_ms) - 1) or 1
    for ms, label in time_ticks(first_ms, last_ms, size.times):
        place = x((ms - first_ms) / step_ms)
        yield element("line", class_="grid", x1=place, x2=place, y1=_TOP, y2=size.height - _BOTTOM)
        anchor = "end" if place > size.width - _RIGHT - 24 else "middle"
        yield text(place, size.height - 5, label, class_="tick", text_anchor=anchor)


def _band(panel: Panel, x: PixelScale, y: PixelScale, start: int, stop: int) -> str:
    """The interval of one run of holes, extended by half a step on both sides so that a single hole is visible."""
    steps = [start - 0.5, *range(start, stop), stop - 0.5]
    edges = [start, *range(start, stop), stop - 1]
    above = [(x(at), y(panel.upper[step])) for at, step in zip(steps, edges, strict=True)]
    below = [(x(at), y(panel.lower[step])) for at, step in zip(steps, edges, strict=True)]
    return path([*above, *reversed(below)], close=True)


def _line(kind: str, x: PixelScale, y: PixelScale, values: Floats, start: int, stop: int) -> str:
    points = [(x(step), y(values[step])) for step in range(start, stop) if np.isfinite(values[step])]
    if len(points) == 1:
        return element("circle", class_=f"{kind} dot", cx=points[0][0], cy=points[0][1], r=1.6)
    return element("path", class_=kind, d=path(points)) if points else ""


def _tip(panel: Panel, step: int, unit: str) -> str:
    return element("title", f"hidden {number(panel.truth[step], 4)}, filled {number(panel.filled[step], 4)} {unit}")


def _runs(mask: Bools) -> list[tuple[int, int]]:
    """The bounds [start, stop) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
