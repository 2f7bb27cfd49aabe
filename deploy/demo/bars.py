"""Errors as bar charts in SVG. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from deploy.demo.score import Score, contenders
from glaim_stream.core.drawing import PixelScale, element, number, text

_WIDTH, _LABEL, _ROOM = 1060, 250, 64
_NARROW_WIDTH, _NARROW_ROOM, _HEADING = 320, 48, 20
_BAR, _BETWEEN = 15, 16

Scores = Sequence[tuple[str, Score]]


def draw(scores: Scores) -> str:
    """One block of bars per labelled score, all with the same scale, with the labels beside the bars."""
    scores = _scored(scores)
    x = PixelScale(0, _most(scores), _LABEL, _WIDTH - _ROOM)
    parts, top = [], 4
    for label, each in scores:
        names = contenders(each.mae)
        middle = top + _BAR * len(names) / 2
        parts.append(text(_LABEL - 14, middle, label, class_="label", text_anchor="end"))
        parts.append(text(_LABEL - 14, middle + 15, f"{each.cells:,} cells", class_="tick", text_anchor="end"))
        parts += _bars(each, x, top)
        top += _BAR * len(names) + _BETWEEN
    return _svg("wide", parts, _WIDTH, top)


def draw_narrow(scores: Scores) -> str:
    """The same for a phone, with the labels above the bars."""
    scores = _scored(scores)
    x = PixelScale(0, _most(scores), 0, _NARROW_WIDTH - _NARROW_ROOM)
    parts, top = [], 4
    for label, each in scores:
        parts.append(text(0, top + 11, f"{label}, {each.cells:,} cells", class_="tick"))
        parts += _bars(each, x, top + _HEADING)
        top += _HEADING + _BAR * len(contenders(each.mae)) + _BETWEEN
    return _svg("narrow", parts, _NARROW_WIDTH, top)


def _scored(scores: Scores) -> Scores:
    return [(label, each) for label, each in scores if each.cells]


def _most(scores: Scores) -> float:
    return max((error for _, each in scores for error in each.mae.values()), default=1.0)


def _bars(score: Score, x: PixelScale, top: float) -> list[str]:
    parts = []
    for row, name in enumerate(contenders(score.mae)):
        error, y = score.mae[name], top + row * _BAR
        parts += [
            element("rect", class_=f"bar {name}", x=x.start, y=y, width=x(error) - x.start, height=_BAR - 3, rx=2),
            text(x(error) + 7, y + 10, number(error), class_=f"value {name}"),
        ]
    return parts


def _svg(size: str, parts: Sequence[str], width: int, height: int) -> str:
    return element(
        "svg", "".join(parts), class_=f"bars {size}", viewBox=f"0 0 {width} {height}", role="img", aria_label="errors"
    )
