"""Pieces of SVG: elements with escaped text, scales, and round ticks. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

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
