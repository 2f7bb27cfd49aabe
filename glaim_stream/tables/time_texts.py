"""Formats times like a file's own times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from fractions import Fraction
from itertools import product

from glaim_stream.core.errors import SettingsError

Writer = Callable[[int], tuple[str, ...]]

_DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y",
    "%-d.%-m.%Y", "%-d/%-m/%Y", "%-m/%-d/%Y", "%Y/%-m/%-d", "%Y-%-m-%-d", "%d-%b-%Y", "%d %b %Y", "%d.%m.%y",
    "%d/%m/%y", "%m/%d/%y", "%-m/%-d/%y", "%-d/%-m/%y",
)  # fmt: skip
_CLOCKS = (
    "%H:%M:%S", "%H:%M", "%H.%M.%S", "%H.%M", "%H%M%S", "%H%M", "%H", "%-H:%M:%S", "%-H:%M", "%I:%M:%S %p", "%I:%M %p",
    "%-I:%M:%S %p", "%-I:%M %p", "%H:%M:%S.{ms}", "%H:%M:%S.{us}",
)  # fmt: skip
_MARKS, _ENDS = (" ", "T", ""), ("", "Z", "+00:00", "+0000", " UTC", "%:z", "%z")
_UNITS_PER_MS = (Fraction(1, 1000), Fraction(1), Fraction(1000), Fraction(1_000_000))


def writer_of(cells: Sequence[Sequence[str]], times_ms: Sequence[int], zone: tzinfo) -> Writer:
    """Find the format of times from examples.

    Args:
        cells: texts of the one or two time columns of each example.
        times_ms: time of each example.
        zone: zone of times that carry none.

    Raises:
        SettingsError: no known format reproduces the examples.
    """
    for writer in _writers(len(cells[0]), zone):
        if all(writer(time) == tuple(own) for own, time in zip(cells, times_ms, strict=True)):
            return writer
    raise SettingsError(f"rows cannot be inserted: times such as {' '.join(cells[0])!r} cannot be written alike")


def _writers(columns: int, zone: tzinfo) -> Iterator[Writer]:
    if columns == 2:
        for date, clock in product(_DATES, _CLOCKS):
            yield _formatted((date, clock), zone)
        return
    for unit in _UNITS_PER_MS:
        yield _number(unit, "{:.0f}")
        yield _number(unit, "{:.1f}")
    for date in _DATES:
        yield _formatted((date,), zone)
        for mark, clock, end in product(_MARKS, _CLOCKS, _ENDS):
            yield _formatted((date + mark + clock + end,), zone if end in ("", "%:z", "%z") else UTC)


def _number(unit: Fraction, form: str) -> Writer:
    if form == "{:.0f}":
        return lambda time_ms: (str(round(time_ms * unit)),)
    return lambda time_ms: (form.format(float(time_ms * unit)),)


def _formatted(forms: tuple[str, ...], zone: tzinfo) -> Writer:
    def write(time_ms: int) -> tuple[str, ...]:
        moment = datetime.fromtimestamp(time_ms // 1000, zone)
        part = time_ms % 1000
        texts = []
        for form in forms:
            form = form.replace("{ms}", f"{part:03d}").replace("{us}", f"{part:03d}000")
            if "%:z" in form:
                offset = moment.strftime("%z")
                form = form.replace("%:z", offset[:3] + ":" + offset[3:])
            texts.append(moment.strftime(form))
        return tuple(texts)

    return write
