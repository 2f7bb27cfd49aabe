"""Promtool's notation of series, one value a minute: `0+60x30` begins with 0 and takes 30 steps of 60.

`_` is no sample, `stale` is the mark that Prometheus writes when a target vanishes.
"""

import re
from collections.abc import Sequence

STALE = "stale"
Value = float | str | None  # a number, STALE, or None for no sample

_PART = re.compile(
    r"(?:(?P<missing>_)|(?P<stale>stale)|(?P<first>-?[\d.]+(?:e[+-]?\d+)?)(?P<step>[+-][\d.]+(?:e[+-]?\d+)?)?)"
    r"(?:x(?P<times>\d+))?"
)


def expand(text: str) -> list[Value]:
    """The values of a series in promtool's notation.

    Raises:
        ValueError: a part is not in the notation.
    """
    values: list[Value] = []
    for part in text.split():
        found = _PART.fullmatch(part)
        if found is None:
            raise ValueError(f"expected promtool's notation such as 0+60x30, _x5 or stale, found {part!r}")
        times = int(found["times"] or 0)
        if found["missing"]:
            values += [None] * max(times, 1)
        elif found["stale"]:
            values.append(STALE)
        else:
            first, step = float(found["first"]), float(found["step"] or 0)
            values += [first + step * each for each in range(times + 1)]
    return values


def compress(values: Sequence[Value]) -> str:
    """The shortest runs of equal steps that give these values."""
    parts, at = [], 0
    while at < len(values):
        value = values[at]
        if value is None or isinstance(value, str):
            end = at + 1
            while value is None and end < len(values) and values[end] is None:
                end += 1
            parts.append(f"_x{end - at}" if value is None else value)
        else:
            end, step = at + 1, 0.0
            following = values[end] if end < len(values) else None
            if isinstance(following, (int, float)):
                step = following - value
                while end < len(values) and values[end] == value + step * (end - at):
                    end += 1
            parts.append(_text(value) if end == at + 1 else f"{_text(value)}{_sign(step)}x{end - at - 1}")
        at = end
    return " ".join(parts)


def _text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _sign(step: float) -> str:
    return "" if step == 0 else f"{'+' if step > 0 else '-'}{_text(abs(step))}"
