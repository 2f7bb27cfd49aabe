"""SVG of the pages: elements with escaped text, scales, round ticks, and the chart of one sensor over time. Pure.

The classes of the elements are those of pages.css.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.masks import runs

Reals = NDArray[np.floating[Any]]
_RIGHT, _TOP, _BOTTOM = 8, 8, 24
_TIME_STEPS_MIN = (5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080)
_MONTH_MIN = 43_830  # minutes of a mean month, 365.25 / 12 days
_MONTH_STEPS = (1, 2, 3, 6, 12, 24, 60, 120)


@dataclass(frozen=True)
class PixelScale:
    """A linear map from numbers to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return pixels, rounded to a tenth."""
        span = self.high - self.low or 1.0
        return round(self.start + (value - self.low) / span * (self.end - self.start), 1)


def element(name: str, body: str = "", **attributes: object) -> str:
    """Return one element; `class_` and underscores in names stand for `class` and hyphens."""
    text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{text}>{body}</{name}>" if body else f"<{name}{text}/>"


def text(x: float, y: float, words: str, **attributes: object) -> str:
    """Return text at a position."""
    return element("text", escape(words), x=x, y=y, **attributes)


def tip(words: str) -> str:
    """Return the tooltip of a shape, which screen readers use too, as the body of its element."""
    return element("title", escape(words))


def path(points: Iterable[tuple[float, float]], *, close: bool = False) -> str:
    """Return the `d` of a line through points, rounded to a tenth of a pixel."""
    line = "L".join(f"{x:g},{y:g}" for x, y in points)
    return f"M{line}{'Z' if close else ''}" if line else ""


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Return about `about` round numbers between `low` and `high`."""
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 10) for index in range(first, math.floor(high / step + 1e-9) + 1)]


def alike(values: Sequence[float]) -> list[str]:
    """Format numbers with the same number of decimals."""
    places = max((len(f"{value:.10f}".rstrip("0").partition(".")[2]) for value in values), default=0)
    return [f"{value:,.{places}f}" for value in values]


def time_ticks(first_ms: int, last_ms: int, about: int = 7) -> list[tuple[int, str]]:
    """Return round times with their labels; a new day shows its date, a new year or a long span the year."""
    rough_min = (last_ms - first_ms) / 60_000 / about
    if rough_min > _TIME_STEPS_MIN[-1]:
        return _month_ticks(first_ms, last_ms, rough_min / _MONTH_MIN)
    step_ms = 60_000 * next((step for step in _TIME_STEPS_MIN if step >= rough_min), _TIME_STEPS_MIN[-1])
    start = -(-first_ms // step_ms) * step_ms
    out = []
    for ms in range(start, last_ms + 1, step_ms):
        moment = datetime.fromtimestamp(ms / 1000, UTC)
        at_midnight = moment.hour == 0 and moment.minute == 0
        out.append((ms, f"{moment.day} {moment:%b}" if at_midnight else f"{moment:%H:%M}"))
    return out


def _month_ticks(first_ms: int, last_ms: int, rough_months: float) -> list[tuple[int, str]]:
    """Return first days of months at a fixed interval, counted from a January."""
    step = next((step for step in _MONTH_STEPS if step >= rough_months), _MONTH_STEPS[-1])
    first, last = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (first_ms, last_ms))
    out = []
    for month in range((first.year * 12 + first.month - 1) // step * step, last.year * 12 + last.month, step):
        moment = datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC)
        ms = int(moment.timestamp() * 1000)
        if first_ms <= ms <= last_ms:
            out.append((ms, str(moment.year) if month % 12 == 0 else f"{moment:%b}"))
    return out


def number(value: float | None, digits: int = 3) -> str:
    """Format a number with so many significant digits; a dash for None."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(places, 6)}f}"


@dataclass(frozen=True, eq=False)
class Curves:
    """One sensor over T steps, floats [T], NaN where there is no value.

    filled: values of the holes, with the bounds of their band.
    straight: interpolation of the holes.
    truth: readings that were hidden.
    doubtful: readings that are not believed.
    """

    observed: Reals
    filled: Reals
    lower: Reals
    upper: Reals
    straight: Reals | None = None
    truth: Reals | None = None
    doubtful: Reals | None = None


@dataclass(frozen=True)
class ChartSize:
    """Pixels of a chart, the room for the labels of its vertical axis, and its class in the style sheet."""

    width: int
    height: int
    left: int
    name: str = ""


def sensor_chart(
    curves: Curves, size: ChartSize, marks: Iterable[tuple[float, str]], label: str, tips: Sequence[str] = ()
) -> str:
    """Draw one sensor over time.

    Args:
        curves: its values.
        size: size of the drawing.
        marks: steps with the labels of the horizontal axis.
        label: description for screen readers.
        tips: tooltip of each hidden reading, by step.
    """
    steps = len(curves.observed)
    low, high = _range(curves)
    margin = 0.05 * (high - low or abs(high) or 1.0)
    x = PixelScale(0, max(1, steps - 1), size.left, size.width - _RIGHT)
    y = PixelScale(low - margin, high + margin, size.height - _BOTTOM, _TOP)
    parts = [*_axes(size, x, y, ticks(low, high), marks)]
    holes = ~np.isfinite(curves.observed)
    for start, stop in runs(holes & np.isfinite(curves.lower) & np.isfinite(curves.upper)).tolist():
        parts.append(element("path", class_="band", d=_band(curves, x, y, start, stop)))
    for start, stop in runs(~holes).tolist():
        parts.append(_line("observed", x, y, curves.observed, start, stop))
    for kind, values in (("straight", curves.straight), ("filled", curves.filled)):
        if values is None:
            continue
        joined = np.where(holes, values, curves.observed)
        for start, stop in runs(holes & np.isfinite(values)).tolist():  # to the readings beside them, without a break
            parts.append(_line(kind, x, y, joined, max(0, start - 1), min(steps, stop + 1)))
    for kind, values, radius in (("truth", curves.truth, 2.8), ("doubtful", curves.doubtful, 3.0)):
        if values is None:
            continue
        for step in np.flatnonzero(np.isfinite(values)).tolist():
            says = tip(tips[step]) if tips and kind == "truth" else ""
            parts.append(element("circle", says, class_=kind, cx=x(step), cy=y(values[step]), r=radius))
    view = f"0 0 {size.width} {size.height}"
    name = f"panel {size.name}".rstrip()
    return element("svg", "".join(parts), class_=name, viewBox=view, role="img", aria_label=label)


def time_marks(first_ms: int, last_ms: int, steps: int, about: int) -> list[tuple[float, str]]:
    """Round times as marks of a chart: the step of each, and its label."""
    step_ms = (last_ms - first_ms) / max(1, steps - 1) or 1
    return [((ms - first_ms) / step_ms, label) for ms, label in time_ticks(first_ms, last_ms, about)]


def legend(keys: Iterable[tuple[str, str]]) -> str:
    """A legend: drawings of 28 by 14 pixels, each with its label as HTML."""
    drawn = ((element("svg", mark, viewBox="0 0 28 14", aria_hidden="true"), label) for mark, label in keys)
    return f'<div class="legend">{"".join(f"<span>{svg}{label}</span>" for svg, label in drawn)}</div>'


def key_line(kind: str) -> str:
    """The line of a legend."""
    return element("path", class_=kind, d="M1,7L27,7")


def key_circle(kind: str) -> str:
    """The circle of a legend."""
    return element("circle", class_=kind, cx=14, cy=7, r=3)


KEY_BAND = element("path", class_="band", d="M1,2L27,2L27,12L1,12Z")


def _range(curves: Curves) -> tuple[float, float]:
    """Lowest and highest value to show. A band may be much wider than the curves; then the frame cuts it off."""

    def finite(*of: Reals | None) -> Reals:
        values: Reals = np.concatenate([each for each in of if each is not None])
        return values[np.isfinite(values)]

    core = finite(curves.observed, curves.filled, curves.straight, curves.truth)
    low, high = (float(core.min()), float(core.max())) if core.size else (0.0, 1.0)
    band = finite(curves.lower, curves.upper)
    if not band.size:
        return low, high
    room = 0.35 * (high - low or abs(high) or 1.0)
    return max(low - room, min(low, float(band.min()))), min(high + room, max(high, float(band.max())))


def _axes(
    size: ChartSize, x: PixelScale, y: PixelScale, values: Sequence[float], marks: Iterable[tuple[float, str]]
) -> Iterator[str]:
    for value, words in zip(values, alike(values), strict=True):
        yield element("line", class_="grid", x1=size.left, x2=size.width - _RIGHT, y1=y(value), y2=y(value))
        yield text(size.left - 6, y(value) + 4, words, class_="tick", text_anchor="end")
    for step, words in marks:
        place = x(step)
        yield element("line", class_="grid", x1=place, x2=place, y1=_TOP, y2=size.height - _BOTTOM)
        anchor = "end" if place > size.width - _RIGHT - 24 else "start" if step == 0 else "middle"
        yield text(place, size.height - 7, words, class_="tick", text_anchor=anchor)


def _band(curves: Curves, x: PixelScale, y: PixelScale, start: int, stop: int) -> str:
    """The band of one run, half a step wider on both sides so that a single cell has a width."""
    places = [start - 0.5, *range(start, stop), stop - 0.5]
    steps = [start, *range(start, stop), stop - 1]
    above, below = (
        [(x(place), y(min(max(values[step], y.low), y.high))) for place, step in zip(places, steps, strict=True)]
        for values in (curves.upper, curves.lower)
    )
    return path([*above, *reversed(below)], close=True)


def _line(kind: str, x: PixelScale, y: PixelScale, values: Reals, start: int, stop: int) -> str:
    points = [(x(step), y(values[step])) for step in range(start, stop) if np.isfinite(values[step])]
    if len(points) == 1:
        return element("circle", class_=f"dot {kind}", cx=points[0][0], cy=points[0][1], r=1.6)
    return element("path", class_=kind, d=path(points)) if points else ""
