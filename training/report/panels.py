"""A chart of one sensor in one window: observed, hidden and filled values over time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from training.report.svg import PixelScale, alike, element, number, path, text, ticks, time_ticks, tip

_WIDTH, _HEIGHT = 520, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 68, 8, 8, 24

Values = Sequence[float | None]


def panel(example: Mapping[str, Any]) -> str:
    """Draw an example of training.report.examples as SVG."""
    observed, hidden, model = example["observed"], example["hidden"], example["model"]
    # An interval may be much wider than the curves; then the frame cuts it off, so that the curves keep their size.
    core = [v for key in ("observed", "hidden", "model", "interpolation") for v in example[key] if v is not None]
    low, high = (min(core), max(core)) if core else (0.0, 1.0)
    room = 0.35 * (high - low or abs(high) or 1.0)
    band = [v for key in ("lower", "upper") for v in example[key] if v is not None]
    low = max(low - room, min([low, *band]))
    high = min(high + room, max([high, *band]))
    margin = 0.05 * (high - low or abs(high) or 1.0)
    steps = len(observed)
    x = PixelScale(0, max(1, steps - 1), _LEFT, _WIDTH - _RIGHT)
    y = PixelScale(low - margin, high + margin, _HEIGHT - _BOTTOM, _TOP)
    parts = [*_axes(example, x, y, low, high)]
    holes = [value is None for value in observed]
    for start, stop in _runs(
        [a is not None and b is not None for a, b in zip(example["lower"], example["upper"], strict=True)]
    ):
        parts.append(element("path", class_="band", d=_band(example, x, y, start, stop)))
    for start, stop in _runs([not hole for hole in holes]):
        parts.append(_line("observed", x, y, observed, start, stop))
    joined = [m if hole else o for m, o, hole in zip(model, observed, holes, strict=True)]
    straight = [m if hole else o for m, o, hole in zip(example["interpolation"], observed, holes, strict=True)]
    for start, stop in _runs(holes):
        reach = max(0, start - 1), min(steps, stop + 1)
        parts.append(_line("interpolation", x, y, straight, *reach))
        parts.append(_line("model", x, y, joined, *reach))
    parts += [
        element("circle", _tip(example, step), class_="truth", cx=x(step), cy=y(value), r=2.6)
        for step, value in enumerate(hidden)
        if value is not None
    ]
    label = (
        f"{example['group']} {example['sensor']}, {example['rule']}: observed, hidden and imputed values over time; "
        f"mean absolute error {number(example['mae_unit'])} {example['unit']}"
    )
    view = f"0 0 {_WIDTH} {_HEIGHT}"
    return element("svg", "".join(parts), class_="panel", viewBox=view, role="img", aria_label=label)


def key() -> str:
    """Draw the legend of all panels."""
    keys = [
        (element("path", class_="line observed", d="M1,7L27,7"), "observed"),
        (element("circle", class_="truth", cx=14, cy=7, r=3), "hidden from every method: the truth"),
        (element("path", class_="line model", d="M1,7L27,7"), "model"),
        (element("path", class_="band", d="M1,2L27,2L27,12L1,12Z"), "its 90 % interval"),
        (element("path", class_="line interpolation", d="M1,7L27,7"), "linear interpolation"),
    ]
    spans = (
        f"<span>{element('svg', mark, viewBox='0 0 28 14', aria_hidden='true')}{words}</span>" for mark, words in keys
    )
    return f'<div class="legend">{"".join(spans)}</div>'


def _axes(example: Mapping[str, Any], x: PixelScale, y: PixelScale, low: float, high: float) -> Iterator[str]:
    values = ticks(low, high)
    for value, label in zip(values, alike(values), strict=True):
        yield element("line", class_="grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y(value), y2=y(value))
        yield text(_LEFT - 6, y(value) + 4, label, class_="tick", text_anchor="end")
    first_ms, last_ms, steps = example["first_ms"], example["last_ms"], len(example["observed"])
    step_ms = (last_ms - first_ms) / max(1, steps - 1) or 1
    for ms, label in time_ticks(first_ms, last_ms, about=6):
        place = x((ms - first_ms) / step_ms)
        yield element("line", class_="grid", x1=place, x2=place, y1=_TOP, y2=_HEIGHT - _BOTTOM)
        anchor = "end" if place > _WIDTH - _RIGHT - 20 else "middle"
        yield text(place, _HEIGHT - 7, label, class_="tick", text_anchor=anchor)


def _band(example: Mapping[str, Any], x: PixelScale, y: PixelScale, start: int, stop: int) -> str:
    """Draw the interval of one run, half a step wider on both sides so that a single cell has a width."""
    places = [start - 0.5, *range(start, stop), stop - 0.5]
    steps = [start, *range(start, stop), stop - 1]
    sides = []
    for name in ("upper", "lower"):
        values = [min(max(example[name][step], y.low), y.high) for step in steps]
        sides.append([(x(place), y(value)) for place, value in zip(places, values, strict=True)])
    return path([*sides[0], *reversed(sides[1])], close=True)


def _line(kind: str, x: PixelScale, y: PixelScale, values: Values, start: int, stop: int) -> str:
    points = [(x(step), y(value)) for step in range(start, stop) if (value := values[step]) is not None]
    if len(points) == 1:
        return element("circle", class_=f"dot {kind}", cx=points[0][0], cy=points[0][1], r=1.6)
    return element("path", class_=f"line {kind}", d=path(points)) if points else ""


def _tip(example: Mapping[str, Any], step: int) -> str:
    return tip(f"truth {number(example['hidden'][step], 4)}, model {number(example['model'][step], 4)}")


def _runs(mask: Sequence[bool]) -> list[tuple[int, int]]:
    """Return [start, stop) of each run of True."""
    runs, start = [], None
    for index, here in enumerate([*mask, False]):
        if here and start is None:
            start = index
        elif not here and start is not None:
            runs.append((start, index))
            start = None
    return runs
