"""Line charts and dot charts as SVG, with classes that the page's style colours. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glaim_stream.core.drawing import PixelScale, alike, element, key_line, legend, number, path, text, ticks, tip

WIDTH = 460  # width of a drawing: two fit side by side on a wide page, one on a narrow page
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 10, 44
_ROW = 24

METHODS = {
    "model": "model",
    "interpolation": "linear interpolation",
    "last_value": "last value",
    "mean": "training mean",
}
FORM = {"gaussian": "closed form"}


def methods_of(cases: Mapping[str, Any]) -> dict[str, str]:
    """Return the methods of an evaluation's cases with their names; not each has a closed form."""
    there = any("gaussian" in case["methods"] for case in cases.values())
    return {"model": METHODS["model"], **(FORM if there else {}), **METHODS}


@dataclass(frozen=True)
class Line:
    """Points of one curve, in order; None interrupts it. `name` is the class that colours it."""

    name: str
    points: Sequence[tuple[float, float | None]]
    marks: bool = True


@dataclass(frozen=True)
class Axis:
    """An axis of a chart: title with unit, range, and its ticks if they are names instead of numbers."""

    title: str
    low: float
    high: float
    named: Sequence[tuple[float, str]] = ()
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Return the position of a value before it is scaled to pixels."""
        return math.log10(value) if self.logarithmic else value

    def scale(self, start: float, end: float) -> PixelScale:
        """Return the scale from positions to pixels."""
        return PixelScale(self.place(self.low), self.place(self.high), start, end)

    def ticks(self, about: int = 5) -> list[tuple[float, str]]:
        """Return tick values with their labels."""
        if self.named:
            return list(self.named)
        values = log_ticks(self.low, self.high) if self.logarithmic else ticks(self.low, self.high, about)
        labels = [f"{value:g}" for value in values] if self.logarithmic else alike(values)
        return list(zip(values, labels, strict=True))


def log_ticks(low: float, high: float) -> list[float]:
    """Return a few round values inside [low, high]: powers of ten for a long range, even steps for a short one."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        found = [value for p in powers for f in factors if low * 0.999 <= (value := f * 10.0**p) <= high * 1.001]
        if len(found) >= 3:
            return found
    return ticks(low, high)


def log_axis(title: str, values: Sequence[float]) -> Axis:
    """Return an axis that holds all positive values, with a margin."""
    positive = [value for value in values if value > 0] or [0.1, 1.0]
    return Axis(title, min(positive) / 1.12, max(positive) * 1.12, logarithmic=True)


def line_chart(
    lines: Sequence[Line], x: Axis, y: Axis, label: str, *, reference: tuple[float, str] | None = None,
    mark_x: tuple[float, str] | None = None, height: int = 250,
) -> str:  # fmt: skip
    """Draw curves in one frame; `reference` adds a labelled horizontal line, `mark_x` a vertical one."""
    bottom = height - _BOTTOM
    across, up = x.scale(_LEFT, WIDTH - _RIGHT), y.scale(bottom, _TOP)
    parts = [*_frame(x, y, across, up, bottom, height)]
    if reference is not None:
        level = up(y.place(reference[0]))
        parts.append(element("line", class_="reference", x1=_LEFT, x2=WIDTH - _RIGHT, y1=level, y2=level))
        parts.append(text(WIDTH - _RIGHT - 2, level - 5, reference[1], class_="note", text_anchor="end"))
    if mark_x is not None:
        place = across(x.place(mark_x[0]))
        left = place > (WIDTH + _LEFT) / 2
        parts.append(element("line", class_="reference", x1=place, x2=place, y1=_TOP, y2=bottom))
        words = {"class_": "note", "text_anchor": "end" if left else "start"}
        parts.append(text(place + (-5 if left else 5), _TOP + 10, mark_x[1], **words))
    for line in lines:
        for run in _runs(line.points, y):
            parts.append(
                element(
                    "path", class_=f"line {line.name}", d=path((across(x.place(a)), up(y.place(b))) for a, b in run)
                )
            )
            if line.marks or len(run) == 1:
                parts += [
                    mark(
                        line.name,
                        across(x.place(a)),
                        up(y.place(b)),
                        f"{METHODS.get(line.name, line.name)}: {number(b)}",
                    )
                    for a, b in run
                ]
    return element("svg", "".join(parts), viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label=label)


def dot_rows(rows: Sequence[tuple[str, Mapping[str, float | None]]], x: Axis, label: str, *, left: int = 150) -> str:
    """Draw one row for each name with a mark for each method, all on one axis."""
    bottom = _TOP + _ROW * len(rows)
    across, names = x.scale(left, WIDTH - _RIGHT - 4), METHODS | FORM
    parts = []
    for value, words in x.ticks():
        place = across(x.place(value))
        parts.append(element("line", class_="grid", x1=place, x2=place, y1=_TOP, y2=bottom))
        parts.append(text(place, bottom + 16, words, class_="tick", text_anchor="middle"))
    parts.append(text((left + WIDTH - _RIGHT) / 2, bottom + 35, x.title, class_="title", text_anchor="middle"))
    for index, (name, values) in enumerate(rows):
        middle = _TOP + _ROW * (index + 0.5)
        shown = [(m, v) for m, v in values.items() if v is not None and (v > 0 or not x.logarithmic)]
        parts.append(text(left - 10, middle + 4, shorten(name, (left - 14) // 6.2), class_="label", text_anchor="end"))
        parts.append(element("line", class_="grid", x1=left, x2=WIDTH - _RIGHT, y1=middle, y2=middle))
        parts += [  # the model's mark last, on top
            mark(
                method,
                across(x.place(value)),
                middle,
                f"{name}, {names.get(method, method)}: {number(value)}",
            )
            for method, value in reversed(shown)
        ]
    return element("svg", "".join(parts), viewBox=f"0 0 {WIDTH} {bottom + _BOTTOM}", role="img", aria_label=label)


def mark(name: str, x: float, y: float, words: str) -> str:
    """Draw the mark of a method, with its own shape so that colour is not needed; `words` are its tooltip."""
    says = tip(words)
    kind = f"mark {name}"
    if name in ("interpolation", "loss", "all"):
        return element("rect", says, class_=kind, x=round(x - 3.4, 1), y=round(y - 3.4, 1), width=6.8, height=6.8)
    if name in ("last_value", "one"):
        return element("path", says, class_=kind, d=f"M{x:g},{y - 4.6:g}l4.6,8h-9.2Z")
    if name == "gaussian":
        return element("path", says, class_=kind, d=f"M{x:g},{y - 4.8:g}l4.8,4.8l-4.8,4.8l-4.8,-4.8Z")
    if name == "mean":
        return element("path", says, class_=kind, d=f"M{x - 3.6:g},{y - 3.6:g}l7.2,7.2m0,-7.2l-7.2,7.2")
    return element("circle", says, class_=kind, cx=x, cy=y, r=4.2)


def method_legend(names: Mapping[str, str], *, lines: bool = True) -> str:
    """Draw the legend of methods or curves."""
    return legend(
        ((key_line(f"line {name}") if lines else "") + mark(name, 14, 7, words), words) for name, words in names.items()
    )


def shorten(name: str, most: float) -> str:
    """Cut a name at its end so that it fits."""
    return name if len(name) <= most else f"{name[: max(1, int(most) - 1)].rstrip()}…"


def _frame(x: Axis, y: Axis, across: PixelScale, up: PixelScale, bottom: float, height: int) -> Iterator[str]:
    for value, words in y.ticks():
        place = up(y.place(value))
        yield element("line", class_="grid", x1=_LEFT, x2=WIDTH - _RIGHT, y1=place, y2=place)
        yield text(_LEFT - 7, place + 4, words, class_="tick", text_anchor="end")
    for value, words in x.ticks(7):
        place = across(x.place(value))
        yield element("line", class_="grid", x1=place, x2=place, y1=bottom, y2=bottom + 4)
        yield text(place, bottom + 17, words, class_="tick", text_anchor="middle")
    yield text((_LEFT + WIDTH - _RIGHT) / 2, height - 7, x.title, class_="title", text_anchor="middle")
    middle = (bottom + _TOP) / 2
    yield text(13, middle, y.title, class_="title", text_anchor="middle", transform=f"rotate(-90 13 {middle:g})")


def _runs(points: Sequence[tuple[float, float | None]], y: Axis) -> Iterator[list[tuple[float, float]]]:
    """Yield the runs of points that can be drawn."""
    run: list[tuple[float, float]] = []
    for a, b in points:
        if b is None or (y.logarithmic and b <= 0):
            if run:
                yield run
            run = []
        else:
            run.append((a, b))
    if run:
        yield run
