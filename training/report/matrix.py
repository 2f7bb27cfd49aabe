"""The dependency map: a square for each pair of sensors, darker for a larger weight. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glaim_stream.core.drawing import element, number, text, tip
from training.report.charts import shorten

LEVELS = 8
_SIDE = 520
_LETTER = 11.5  # largest size in px; names shrink with their rows
MOST_NAMES = 40
_MOST_NUMBERS = 12  # with more sensors the numbers are not legible, above MOST_NAMES neither are the names


def matrix(found: Mapping[str, Any], sensors: Sequence[str]) -> str:
    """Draw the weights of the columns in each row, coloured in LEVELS equal steps from 0 to the largest entry."""
    values, count = found["matrix"], len(sensors)
    most = max(max(row) for row in values)
    named = count <= MOST_NAMES
    letter = min(_LETTER, 0.85 * (_SIDE - 90) / count)
    margin = min(150.0, 12 + 0.66 * letter * max(len(name) for name in sensors)) if named else 30.0
    cell = (_SIDE - margin) / count
    parts = _few(values, most, margin, cell, sensors) if count <= _MOST_NUMBERS else _many(values, most, margin, cell)
    if named:
        parts += _names(sensors, margin, cell, letter)
    else:
        for at in range(0, count, max(1, round(count / 80) * 10)):
            place = round(margin + (at + 0.5) * cell, 1)
            parts.append(text(margin - 5, place + 4, str(at + 1), class_="tick", text_anchor="end"))
            parts.append(text(place, margin - 6, str(at + 1), class_="tick", text_anchor="middle"))
    label = f"dependency map of {count} sensors: mean over features of the first StaGlo layer's matrices"
    return element("svg", "".join(parts), class_="map", viewBox=f"0 0 {_SIDE} {_SIDE}", role="img", aria_label=label)


def scale_key(found: Mapping[str, Any]) -> str:
    """Draw the colour scale."""
    most = max(max(row) for row in found["matrix"])
    squares = "".join(
        element("rect", class_=f"q{level}", x=level * 24, y=0, width=23, height=12) for level in range(LEVELS)
    )
    svg = element("svg", squares, class_="key", viewBox=f"0 0 {24 * LEVELS} 12", aria_hidden="true")
    return f'<div class="legend"><span>0 {svg} {number(most)}</span></div>'


def _level(value: float, most: float) -> int:
    return min(LEVELS - 1, int(LEVELS * value / most)) if most > 0 else 0


def _few(
    values: Sequence[Sequence[float]], most: float, margin: float, cell: float, sensors: Sequence[str]
) -> list[str]:
    """Draw a square for each pair with its number."""
    parts = []
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            says = tip(f"{sensors[i]} takes {number(value)} from {sensors[j]}")
            left, top, side = round(margin + j * cell, 1), round(margin + i * cell, 1), round(cell - 0.7, 1)
            level = _level(value, most)
            parts.append(element("rect", says, class_=f"q{level}", x=left, y=top, width=side, height=side))
            ink = "cell dark" if level > LEVELS // 2 else "cell"
            middle = round(left + cell / 2, 1), round(top + cell / 2 + 4, 1)
            parts.append(text(*middle, f"{value:.2f}".removeprefix("0"), class_=ink, text_anchor="middle"))
    return parts


def _many(values: Sequence[Sequence[float]], most: float, margin: float, cell: float) -> list[str]:
    """Draw one path for each colour, joining neighbours of a row: hundreds of sensors stay below a megabyte."""
    paths: list[list[str]] = [[] for _ in range(LEVELS)]
    for i, row in enumerate(values):
        levels = [_level(value, most) for value in row]
        start = 0
        for j in range(1, len(levels) + 1):
            if j == len(levels) or levels[j] != levels[start]:
                paths[levels[start]].append(f"M{start} {i}h{j - start}v1h{start - j}z")
                start = j
    drawn = "".join(element("path", class_=f"q{level}", d="".join(each)) for level, each in enumerate(paths) if each)
    return [element("g", drawn, transform=f"translate({margin:g} {margin:g}) scale({cell:.5f})")]


def _names(sensors: Sequence[str], margin: float, cell: float, size: float) -> list[str]:
    parts = []
    for index, name in enumerate(sensors):
        words, middle = shorten(name, (margin - 8) / (size * 0.64)), margin + (index + 0.5) * cell
        style = f"font-size:{size:.1f}px"
        parts.append(
            text(margin - 6, round(middle + size * 0.35, 1), words, class_="label", text_anchor="end", style=style)
        )
        place = round(middle + size * 0.35, 1)
        parts.append(
            text(
                place, margin - 6, words, class_="label", style=style, transform=f"rotate(-90 {place:g} {margin - 6:g})"
            )
        )
    return parts
