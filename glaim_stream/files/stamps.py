"""Reads one column as times: text in many formats, numbers that count from 1970, numbers that spell a date."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.times import EARLIEST_MS, LATEST_MS, NO_TIME
from glaim_stream.files.kinds import is_text

Ints = NDArray[np.int64]
_DAY_MS = 86_400_000
_ENOUGH = 0.99  # least share of the filled cells that are times; the others are rows without a time

_HALF = r" *(?P<half>[AaPp](?:\.?[Mm]\.?)?)?"  # 3:15 PM, and 3:15p
_MINUTES = r"(?:[:.hH](?P<M>\d{2})(?:[:.](?P<S>\d{2})(?:[.,](?P<F>\d{1,9}))?)?)"
_CLOCK = rf"(?P<H>\d{{1,2}}){_MINUTES}?{_HALF}"
_SPANS = (
    r"^(?P<start>\d{4}-\d{2}-\d{2}T[^/]+)/\d{4}-\d{2}-\d{2}T[^/]+$",
    # 01.03.2025 00:00 - 01.03.2025 00:15
    r"^(?P<start>\d[^:]{5,}[ T]\d{1,2}:\d{2}[^-]*?) (?:-|–|to|bis) \d[^:]{5,}[ T]\d{1,2}:\d{2}.*$",
)
_CLOCK_ALONE = rf"^(?P<H>\d{{1,2}}){_MINUTES}{_HALF}$"
_ZONE = r" ?(?P<zone>Z|z|UTC|GMT|CET|CEST|MEZ|MESZ|BST|EST|EDT|CDT|MDT|PST|PDT|[+-]\d{2}(?::?\d{2})?)?"
_TAIL = rf"(?:(?:[T _]+|, *|:){_CLOCK}{_ZONE})?$"
_DAY_NAME = r"^(?:[A-Za-z]{3,9}[,.]? +)?"
_PATTERNS = {
    "ymd": rf"^(?P<y>\d{{4}})[-/.](?P<m>\d{{1,2}})[-/.](?P<d>\d{{1,2}}){_TAIL}",
    "number": rf"^(?P<a>\d{{1,2}})(?P<mark>[-/.])(?P<b>\d{{1,2}})[-/.](?P<y>\d{{4}}|\d{{2}}){_TAIL}",
    "d-mon-y": rf"{_DAY_NAME}(?P<d>\d{{1,2}})[-/. ]?(?P<mon>[A-Za-zäéû]{{3,10}})\.?"
    rf"[-/. ,]*(?P<y>\d{{4}}|\d{{2}}){_TAIL}",
    "mon-d-y": rf"{_DAY_NAME}(?P<mon>[A-Za-z]{{3,10}})\.?[- ]+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?"
    rf"[- ]+(?P<y>\d{{4}}){_TAIL}",
    "y-mon-d": rf"^(?P<y>\d{{4}})[-/. ](?P<mon>[A-Za-z]{{3,10}})\.?[-/. ]+(?P<d>\d{{1,2}}){_TAIL}",
    "compact": r"^(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})[T _:-]?(?:(?P<H>\d{2}):?(?:(?P<M>\d{2}):?(?P<S>\d{2})?)?)?"
    r"(?:[.,](?P<F>\d{1,9}))?" + _ZONE + "$",
    "month": r"^(?P<y>\d{4})[-/](?P<m>\d{2})$",
}
_MONTHS = {
    name: number
    for number, names in enumerate(
        ("jan", "feb", "mar mär mrz", "apr avr", "may mai", "jun", "jul", "aug", "sep", "oct okt", "nov", "dec dez"), 1
    )
    for name in names.split()
}
_ZONES = {
    "": 0, "z": 0, "utc": 0, "gmt": 0, "cet": 60, "mez": 60, "cest": 120, "mesz": 120, "bst": 60,
    "est": -300, "edt": -240, "cdt": -300, "mdt": -360, "pst": -480, "pdt": -420,
}  # fmt: skip
_SHARED_ZONES = {"cst": -360, "mst": -420, "ast": -240}  # in America; elsewhere China, Malaysia and Arabia
_COLUMN_ZONES = {  # words of columns that hold zones alone
    **_ZONES, "adt": -180, "akst": -540, "akdt": -480, "hst": -600, "eet": 120, "eest": 180, "wet": 0, "west": 60
}  # fmt: skip
_ALL_ZONES = _COLUMN_ZONES | _SHARED_ZONES
_AMERICAN = {"cdt", "edt", "mdt", "pdt", "adt", "akst", "akdt", "hst", "est", "pst"}
# Ranges of numbers that count from 1970: 1989 to 2103. In another unit they would be weeks of 1970 or the far future.
_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_COUNTED = (600_000_000, 4_200_000_000)


@dataclass(frozen=True, slots=True)
class Stamps:
    """One interpretation of a column as times."""

    ms: Ints  # [R]; NO_TIME where the row has none; UTC where `zoned`, else a local time
    zoned: bool
    how: str  # dmy, mdy, compact, s, ms, ...
    has_clock: bool = True
    unread: int = 0  # filled cells that are not times


def stamps(column: Any, numbers: Any = None) -> list[Stamps]:
    """All interpretations of a column as times: none, one, or one for each order of day and month that fits all cells.

    Args:
        column: Arrow column.
        numbers: column as numbers, if it holds only numbers.
    """
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        zoned = pa.types.is_timestamp(kind) and kind.tz is not None
        cast = pc.cast(pc.cast(column, pa.timestamp("ms", kind.tz if zoned else None), safe=False), pa.int64())
        return [Stamps(_with_nulls(cast), zoned, "typed", not pa.types.is_date(kind))]
    if numbers is not None or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _numbered(column if numbers is None else numbers)
    return _written(_plain_blanks(column)) if is_text(kind) else []


def clock(column: Any) -> Ints | None:
    """Milliseconds since midnight, -1 where empty; None if the column holds anything else."""
    if pa.types.is_time(column.type):
        return np.asarray(pc.cast(pc.cast(column, pa.time32("ms"), safe=False), pa.int32()).fill_null(-1), np.int64)
    if not is_text(column.type):
        return None
    parts = _parts(_plain_blanks(column), _CLOCK_ALONE)
    return None if parts is None else _clock_ms(parts[0])


def finer(column: Any) -> bool:
    """Whether different cells of a column of times differ by less than a millisecond."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return kind.unit in ("us", "ns") and len(pc.unique(column)) > len(
            pc.unique(column.cast(pa.timestamp("ms"), safe=False))
        )
    if not is_text(kind):
        return True  # numbers that count from 1970
    cells = pc.unique(column.drop_null())
    if pc.all(pc.match_substring_regex(cells, r"^\d{16,}$")).as_py():  # microseconds or nanoseconds since 1970
        return True
    return len(pc.unique(pc.replace_substring_regex(cells, r"([.,]\d{3})\d{1,6}", r"\1"))) < len(cells)


def _plain_blanks(column: Any) -> Any:
    """A column of text with plain blanks in the place of no-break and thin ones."""
    return pc.replace_substring_regex(column, "[\u00a0\u2007\u2009\u202f]", " ")


def days_of(year: Ints, month: Ints, day: Ints) -> Ints:
    """Midnights of days in milliseconds since 1970; NO_TIME where a day does not exist."""
    good = (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    months = np.where(good, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    date = months.astype("datetime64[D]") + np.where(good, day - 1, 0).astype("timedelta64[D]")
    good &= date.astype("datetime64[M]") == months
    return np.where(good, date.astype(np.int64) * _DAY_MS, NO_TIME)


def _with_nulls(cast: Any) -> Ints:
    return np.asarray(pc.fill_null(cast, NO_TIME), np.int64)


def _parts(column: Any, pattern: str) -> tuple[Callable[[str], Any], Any, int] | None:
    """A function from part names to cells' parts, the matching cells and the number of others; None: too many."""
    head = pc.unique(column.slice(0, 5000).drop_null()).slice(0, 200)
    head = head.filter(pc.not_equal(head, ""))
    if not len(head) or pc.sum(pc.match_substring_regex(head, pattern)).as_py() < 0.9 * len(head):
        return None
    found = pc.extract_regex(column, pattern)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    valid = found.is_valid()
    filled = pc.sum(pc.not_equal(pc.fill_null(column, ""), "")).as_py()
    unread = filled - pc.sum(valid).as_py()
    if unread > max(1, (1 - _ENOUGH) * filled):
        return None

    def part(name: str) -> Any:
        return pc.fill_null(pc.struct_field(found, name), "")

    return part, np.asarray(valid), unread


def _ints(text: Any, default: int = 0) -> Ints:
    return np.asarray(pc.cast(pc.if_else(pc.equal(text, ""), str(default), text), pa.int64()), np.int64)


def _clock_ms(part: Callable[[str], Any]) -> Ints:
    """Milliseconds since midnight; -1 where a cell is not a time of day. 24:00 is the end of the day."""
    hour, minute, second = _ints(part("H"), -1), _ints(part("M")), _ints(part("S"))
    nanoseconds = _ints(pc.utf8_rpad(part("F"), 9, "0"))
    half = pc.utf8_lower(part("half")) if _has(part, "half") else None
    bad = (hour > 24) | (minute > 59) | (second > 59) | ((hour == 24) & (minute + second > 0)) | (hour < 0)
    if half is not None:
        pm, am = (np.asarray(pc.starts_with(half, mark)) for mark in "pa")
        bad |= (am | pm) & ((hour < 1) | (hour > 12))
        hour = np.where(am | pm, hour % 12 + np.where(pm, 12, 0), hour)
    ms = ((hour * 60 + minute) * 60 + second) * 1000 + nanoseconds // 1_000_000
    return np.where(bad, -1, ms)


def _has(part: Callable[[str], Any], name: str) -> bool:
    try:
        part(name)
    except (pa.ArrowInvalid, KeyError, IndexError):
        return False
    return True


def _written(column: Any) -> list[Stamps]:
    for pattern in _SPANS:
        spans = _parts(column, pattern)
        if spans is not None:  # an interval: its start
            column = spans[0]("start")
            break
    for how, pattern in _PATTERNS.items():
        found = _parts(column, pattern)
        if found is None:
            continue
        part, valid, unread = found
        read = []
        for name, dates in _dates(how, part).items():
            stamp = _assembled(part, dates, valid, name, unread, dated=how == "month")
            if stamp is not None:
                read.append(stamp)
        if read:
            return read
    return []


def _dates(how: str, part: Callable[[str], Any]) -> Mapping[str, Ints]:
    """Midnights for each order of day and month."""
    year = _years(part("y"))
    if how == "number":
        first, second = _ints(part("a")), _ints(part("b"))
        orders = {"dmy": days_of(year, second, first)}
        if not pc.all(pc.equal(part("mark"), ".")).as_py():  # with dots the month never comes first
            orders["mdy"] = days_of(year, first, second)
        if bool((_lengths(part("y")) == 2).any()):
            orders["ymd"] = days_of(_years(part("a")), second, _ints(part("y")))
        return orders
    day = _ints(part("d"), 1) if how != "month" else np.ones(len(year), np.int64)
    if "mon" in how.split("-"):
        names = pc.utf8_lower(part("mon"))
        codes = names.dictionary_encode()
        known = np.array([_MONTHS.get(str(name)[:3], 0) for name in codes.dictionary.to_pylist()] or [0], np.int64)
        month = known[np.asarray(codes.indices, np.int64)]
    else:
        month = _ints(part("m"))
    return {how: days_of(year, month, day)}


def _lengths(text: Any) -> Ints:
    return np.asarray(pc.utf8_length(text), np.int64)


def _years(text: Any) -> Ints:
    """Years; two digits up to 68 mean this century, as in POSIX."""
    year = _ints(text)
    return np.where(_lengths(text) == 2, np.where(year <= 68, 2000 + year, 1900 + year), year)


def _assembled(
    part: Callable[[str], Any], dates: Ints, valid: NDArray[np.bool_], how: str, unread: int, *, dated: bool
) -> Stamps | None:
    """Dates with their times of day and zones; None if one is invalid."""
    if dated:
        of_day = offset = np.zeros(len(dates), np.int64)
        clocked, zoned = np.zeros(len(dates), np.bool_), False
    else:
        clocked = _lengths(part("H")) > 0
        of_day = np.where(clocked, _clock_ms(part), 0)
        zones = pc.utf8_lower(part("zone"))
        named = _lengths(zones) > 0
        zoned = bool(named.any())
        if zoned and not named[valid & clocked].all():
            return None
        offset = _offsets(zones) if zoned else np.zeros(len(dates), np.int64)
    if ((dates == NO_TIME) | (of_day < 0))[valid].any():
        return None
    ms = np.where(valid, dates + of_day - offset, NO_TIME)
    if not _plausible(ms[valid]):
        return None
    return Stamps(ms, zoned, how, bool(clocked.any()), unread)


def _offsets(zones: Any) -> Ints:
    codes = zones.dictionary_encode()
    minutes = []
    for zone in codes.dictionary.to_pylist():
        if zone in _ALL_ZONES:
            minutes.append(_ALL_ZONES[zone])
        else:
            digits = zone[1:].replace(":", "")
            away = int(digits[:2]) * 60 + int(digits[2:] or 0)
            minutes.append(-away if zone[0] == "-" else away)
    return np.array(minutes or [0], np.int64)[np.asarray(codes.indices, np.int64)] * 60_000


def offsets_of(column: Any, *, american: bool = False) -> Ints | None:
    """Milliseconds ahead of UTC for a column of zones such as CEST and +01:00; None if a cell is not a zone.

    Args:
        column: Arrow column of texts.
        american: take CST, MST and AST as American, as beside CDT.
    """
    zones = pc.utf8_lower(pc.fill_null(column, "-"))
    found = set(pc.unique(zones).to_pylist())
    known = {*_COLUMN_ZONES, *(_SHARED_ZONES if american or found & _AMERICAN else ())}
    for zone in found:
        if zone not in known and not re.fullmatch(r"[+-]\d{2}:?(\d{2})?", zone):
            return None
    return _offsets(zones.combine_chunks() if isinstance(zones, pa.ChunkedArray) else zones)


def _plausible(ms: Ints) -> bool:
    return bool(len(ms)) and int(ms.min()) >= EARLIEST_MS and int(ms.max()) <= LATEST_MS


def _numbered(numbers: Any) -> list[Stamps]:
    """Interpretations as numbers that count from 1970 in one unit, or that spell a date; both if both fit."""
    if isinstance(numbers, pa.ChunkedArray):
        numbers = numbers.combine_chunks()
    valid = np.asarray(numbers.is_valid())
    if not valid.any():
        return []
    found = []
    if pa.types.is_integer(numbers.type):
        whole = np.asarray(pc.fill_null(numbers, 0), np.int64)
        spelled = _spelled(whole, valid)
        if spelled is not None:  # 2025030112 may also be a second of 2034, but not all cells are valid hours by chance
            return [spelled]
        exact = whole.astype(np.float64)
    elif pa.types.is_floating(numbers.type):
        exact = np.asarray(pc.fill_null(numbers, 0.0), np.float64)
        valid &= np.isfinite(exact)
        if not valid.any():
            return []
        exact = np.where(valid, exact, 0.0)  # casting NaN warns
        whole = np.rint(np.clip(exact, -9e18, 9e18)).astype(np.int64)
    else:
        return []
    low, high = float(exact[valid].min()), float(exact[valid].max())
    for unit, scale in _UNITS.items():
        if _COUNTED[0] * scale <= low and high <= _COUNTED[1] * scale:
            ms = np.rint(exact * 1000).astype(np.int64) if unit == "s" else whole // round(scale / 1e3)
            found.append(Stamps(np.where(valid, ms, NO_TIME), True, unit))
    return found


def _spelled(numbers: Ints, valid: NDArray[np.bool_]) -> Stamps | None:
    """Times spelled as 20250301, 2025030112, 202503011230 or 20250301123059."""
    used = numbers[valid]
    digits = len(str(int(used.max())))
    if digits not in (8, 10, 12, 14) or len(str(int(used.min()))) != digits:
        return None
    parts, rest = [], numbers
    for _ in range((digits - 4) // 2):
        parts.append(rest % 100)
        rest = rest // 100
    month, day, *clock = [*reversed(parts)]
    midnight = np.zeros_like(numbers)
    hour, minute, second = (*clock, midnight, midnight, midnight)[:3]
    dates = days_of(rest, month, day)
    of_day = ((hour * 60 + minute) * 60 + second) * 1000
    good = (dates != NO_TIME) & (hour <= 24) & (minute <= 59) & (second <= 59)
    good &= (rest >= 1900) & (rest <= 2200)
    if not good[valid].all():
        return None
    return Stamps(np.where(valid, dates + of_day, NO_TIME), False, "compact", digits > 8)
