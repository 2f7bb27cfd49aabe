"""Chooses the columns that hold the times of a file, and decides between interpretations that both fit.

The whole column decides first, then the evenness of the steps. If two interpretations remain, an error shows both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glaim_stream.core.errors import SettingsError, listed
from glaim_stream.core.times import NO_TIME, text_of_ms
from glaim_stream.files.stamps import Ints, Stamps, clock, days_of, stamps

ORDERS = ("dmy", "mdy")  # orders of dates that do not begin with their year
NAMES = ("ts", "time", "timestamp", "datetime", "date", "time_ms", "ts_ms", "timestamp_ms", "epoch_ms")
_NAMED = re.compile(
    r"time|date|datum|zeit|fecha|stamp|epoch|\bts\b|_ts\b|^ts_|\bat\b|_at$|^unix|^yyyy|^dt$", re.IGNORECASE
)
_PARTS = {
    "year": ("year", "yr", "yyyy", "yy", "jahr", "ano", "année"),
    "month": ("month", "mon", "mo", "mm", "mnth", "monat", "mes", "mois"),
    "day": ("day", "dy", "dd", "dom", "tag", "dia", "jour", "day_of_month"),
    "hour": (
        *("hour", "hr", "hh", "hrs", "hours", "stunde", "hora", "hhmm", "hrmn", "time"),
        *("mst", "pst", "est", "cst", "utc", "gmt", "lst"),  # zones as names of columns with times of day
    ),
    "minute": ("minute", "min", "mi", "mn", "minutes", "minuten"),
    "second": ("second", "sec", "ss", "seconds"),
}
_DAY_OF_YEAR = ("doy", "jday", "day_of_year", "dayofyear", "yday", "julian", "julian_day")
_PLACE = re.compile(r"\s*[(\[].*")  # what stands in brackets behind a name: Hour (PST)
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
_EVEN, _UNEVEN = 0.9, 0.6
_EXAMPLES = 2000  # cells among which one that is no time is looked for


@dataclass(frozen=True, slots=True)
class Times:
    """Times of a file from one or several of its columns."""

    label: str  # names of the columns, joined by +
    columns: tuple[str, ...]
    readings: tuple[Stamps, ...]


def times_of(
    table: Mapping[str, Any], numbers: Mapping[str, Any], *, wanted: str, order: str, name: str
) -> tuple[Times, Stamps, list[str]]:
    """The times of a file's rows, and notes on their origin.

    Args:
        table: Arrow columns by name, as in the file.
        numbers: columns that hold numbers, as numbers.
        wanted: time column, or several joined by +; "": detected.
        order: order of dates, dmy or mdy; "": detected.
        name: name of the file.

    Raises:
        SettingsError: there are no times, or they are ambiguous.
    """
    found = [_stated(table, numbers, wanted, name)] if wanted else candidates(table, numbers)
    if not found:
        for column in table:
            if column.lower() in NAMES:
                _stated(table, numbers, column, name)  # raises with an example
        raise SettingsError(
            f"{name}: expected a column of times (timestamps, text, epoch milliseconds or seconds), found columns "
            f"{listed(list(table))}"
        )
    decided = [(times, *_decided(times, order, name)) for times in found]
    times, stamp, notes = decided[0] if len(decided) == 1 else _chosen(decided, name)
    _require_both_halves(stamp, times.label, name)
    return times, stamp, notes


def _require_both_halves(stamp: Stamps, label: str, name: str) -> None:
    """Require that clocks run through the whole day: 12:50, 1:00, ... 12:50, 1:00 has lost its AM and PM.

    Raises:
        SettingsError: hours are only 1 to 12, and run back from 12 to 1.
    """
    known = stamp.ms[stamp.ms != NO_TIME]
    hours = known // _HOUR_MS % 24
    if stamp.zoned or not len(hours) or hours.min() < 1 or hours.max() != 12:
        return
    back = (np.diff(known) < 0) & (hours[:-1] == 12) & (hours[1:] < 12) & (np.diff(known // _DAY_MS) == 0)
    if back.any():
        at = int(np.flatnonzero(back)[0])
        raise SettingsError(
            f"{name}, column {label!r}: its hours are 1 to 12 and run back from {text_of_ms(int(known[at]))} to "
            f"{text_of_ms(int(known[at + 1]))}, as on a clock without AM and PM, so half of its times cannot be told: "
            "export it with 24 hours"
        )


def candidates(table: Mapping[str, Any], numbers: Mapping[str, Any], *, counted: bool = True) -> list[Times]:
    """Columns, pairs and sets of columns that can be read as times.

    Args:
        table: Arrow columns by name.
        numbers: columns that hold numbers, as numbers.
        counted: if there are none, accept any column of numbers that have the size of a time.
    """
    whole = _components(numbers)
    taken = {column for times in whole for column in times.columns}
    full: list[Times] = []
    dates: list[Times] = []
    sized: list[Times] = []
    clocks: list[tuple[str, Ints]] = []
    for column, cells in table.items():
        if column in taken:
            continue
        number = numbers.get(column)
        read = stamps(cells, number)
        named = bool(_NAMED.search(column))
        is_number = number is not None or pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type)
        if read and not is_number:
            (full if read[0].has_clock else dates).append(Times(column, (column,), tuple(read)))
        elif read and _differ(read[0].ms):
            if named and not read[0].has_clock:
                dates.append(Times(column, (column,), tuple(read)))
            else:
                (full if named else sized).append(Times(column, (column,), tuple(read)))
        elif not read:
            of_day = _of_day(column, cells, number)
            if of_day is not None:
                clocks.append((column, of_day))
    order = list(table)
    joined = [pair for date in dates if (pair := _with_clock(date, clocks, order)) is not None]
    used = {pair.columns[0] for pair in joined}
    # A date beside full times repeats the same day.
    alone = [] if full else [date for date in dates if date.label not in used]
    found = [*full, *joined, *whole]
    if not found or (joined and all(len(np.unique(each.readings[0].ms)) < 2 for each in found)):
        found += alone
    return found or (sized if counted else [])


def _differ(ms: Ints) -> bool:
    known = ms[ms != NO_TIME]
    return bool(len(known)) and (len(known) < 2 or known.min() != known.max())


def _of_day(column: str, cells: Any, number: Any) -> Ints | None:
    """Milliseconds since midnight of a column of times of day or hours; -1 where empty."""
    if number is None:
        return clock(cells)
    named = _PLACE.sub("", column.strip().lower()) in _PARTS["hour"] or re.search(
        r"_(hh|hour|time|hhmm)$", column.lower()
    )
    return _hours(number) if named else None


def _hours(number: Any) -> Ints | None:
    """Milliseconds since midnight of hours 0 to 24, whole or decimal, or of hours and minutes as 1530; else None."""
    if pa.types.is_floating(number.type):
        decimal = np.asarray(number.fill_null(-1.0), np.float64)
        if not len(decimal) or not (decimal.max() <= 24 and (decimal >= 0).any() and decimal.min() >= -1):
            return None
        return np.where(decimal < 0, -1, np.rint(decimal * _HOUR_MS)).astype(np.int64)
    if not pa.types.is_integer(number.type):
        return None
    hours = np.asarray(number.fill_null(-1), np.int64)
    if not len(hours) or hours.max() < 0 or hours.min() < -1:
        return None
    if hours.max() <= 24:
        return np.where(hours < 0, -1, hours * _HOUR_MS)
    if hours.max() <= 2400 and bool((hours[hours >= 0] % 100 < 60).all()):
        return np.where(hours < 0, -1, hours // 100 * _HOUR_MS + hours % 100 * 60_000)
    return None


def _with_clock(date: Times, clocks: Sequence[tuple[str, Ints]], order: Sequence[str]) -> Times | None:
    """A date with the time of day from the nearest column after it, else from the nearest one."""
    if not clocks:
        return None
    place = order.index(date.label)
    column, of_day = min(clocks, key=lambda each: ((at := order.index(each[0]) - place) < 0, abs(at)))
    readings = tuple(
        replace(
            read, has_clock=True, ms=np.where((read.ms == NO_TIME) | (of_day < 0), NO_TIME, read.ms + of_day)
        )
        for read in date.readings
    )  # fmt: skip
    return Times(f"{date.label}+{column}", (date.label, column), readings)


def _components(numbers: Mapping[str, Any]) -> list[Times]:
    """Times from year, month, day and further parts in separate columns."""
    found: dict[str, str] = {}
    for column in numbers:
        plain = _PLACE.sub("", column.strip().lstrip("#").strip())
        for part, names in _PARTS.items():
            # MM beside mm: month and minute
            if plain == "mm" and "month" in found:
                found.setdefault("minute", column)
                break
            whole = pa.types.is_integer(numbers[column].type) or part == "hour"
            if plain.lower() in names and part not in found and whole:
                found[part] = column
                break
    doy = next((column for column in numbers if column.strip().lstrip("#").lower() in _DAY_OF_YEAR), None)
    if "year" not in found:
        return []
    value = {
        part: np.asarray(numbers[column].fill_null(-1), np.int64) for part, column in found.items() if part != "hour"
    }
    if {"month", "day"} <= set(found):
        used = [found[part] for part in ("year", "month", "day")]
        dates = days_of(_century(value["year"]), value["month"], value["day"])
    elif doy is not None and pa.types.is_integer(numbers[doy].type) and "month" not in found:
        used = [found["year"], doy]
        start = days_of(_century(value["year"]), np.ones_like(value["year"]), np.ones_like(value["year"]))
        of_year = np.asarray(numbers[doy].fill_null(-1), np.int64)
        dates = np.where((start == NO_TIME) | (of_year < 1), NO_TIME, start + (of_year - 1) * _DAY_MS)
    elif "month" in found and "day" not in found:
        used = [found["year"], found["month"]]
        dates = days_of(_century(value["year"]), value["month"], np.ones_like(value["year"]))
    else:
        return []
    of_day = np.zeros(len(dates), np.int64)
    if "hour" in found and "day" in {*found} | ({"day"} if doy else set()):
        hours = _hours(numbers[found["hour"]])
        if hours is not None:
            of_day = hours
            used.append(found["hour"])
            for part, scale in (("minute", 60_000), ("second", 1000)):
                if part not in found or not 0 <= value[part].max() < 60:
                    break
                of_day = np.where(of_day < 0, -1, of_day + value[part] * scale)
                used.append(found[part])
    missing = (dates == NO_TIME) | (of_day < 0)
    if missing.mean() > 0.01:
        return []
    ms = np.where(missing, NO_TIME, dates + of_day)
    return [Times("+".join(used), tuple(used), (Stamps(ms, False, "parts", len(used) > 3),))]


def _century(years: Ints) -> Ints:
    return np.where((years >= 0) & (years <= 99), np.where(years <= 68, 2000, 1900) + years, years)


def _stated(table: Mapping[str, Any], numbers: Mapping[str, Any], wanted: str, name: str) -> Times:
    columns = [wanted] if wanted in table else wanted.split("+")
    absent = [column for column in columns if column not in table]
    if absent:
        raise SettingsError(f"{name}: expected time column {wanted!r}, found columns {listed(list(table))}")
    if len(columns) == 1:
        read = stamps(table[wanted], numbers.get(wanted))
        if not read:
            cells = pc.unique(table[wanted].slice(0, _EXAMPLES)).to_pylist()
            filled = [str(cell) for cell in cells if cell not in (None, "")] or ["no cell"]
            unread = [cell for cell in filled if not stamps(pa.array([cell]))]
            example = (unread or filled)[0]
            raise SettingsError(
                f"{name}, column {wanted!r}: expected times such as 2017-02-01T05:00:00Z, found {example[:60]}"
            )
        return Times(wanted, (wanted,), tuple(read))
    chosen = {column: table[column] for column in columns}
    found = [each for each in candidates(chosen, {c: n for c, n in numbers.items() if c in chosen})
             if set(each.columns) == set(columns)]  # fmt: skip
    if not found and len(columns) == 2:
        date = stamps(table[columns[0]], numbers.get(columns[0]))
        of_day = clock(table[columns[1]])
        if of_day is None and columns[1] in numbers:
            of_day = _hours(numbers[columns[1]])
        if date and of_day is not None:
            found = [t for t in [_with_clock(Times(columns[0], (columns[0],), tuple(date)),
                                             [(columns[1], of_day)], columns)] if t]  # fmt: skip
    if not found:
        raise SettingsError(f"{name}: the columns {listed(columns)} do not read as one time")
    return replace(found[0], label=wanted)


def _decided(times: Times, order: str, name: str) -> tuple[Stamps, list[str]]:
    """The chosen interpretation of a column's stamps, with notes."""
    readings = list(times.readings)
    if order and any(each.how in ("dmy", "mdy", "ymd") for each in readings):
        chosen = [each for each in readings if each.how == order]
        if not chosen:
            raise SettingsError(
                f"{name}, column {times.label!r}: its dates do not all have the order {order}; "
                f"{readings[0].how} reads them"
            )
        return chosen[0], []
    named = re.search(r"(mm[-/.]dd|dd[-/.]mm)", times.label, re.IGNORECASE)
    if named:
        said_order = "mdy" if named[1].lower().startswith("mm") else "dmy"
        readings = [each for each in readings if each.how == said_order] or readings
    different = [readings[0]]
    for each in readings[1:]:
        if not any(np.array_equal(each.ms, known.ms) for known in different):
            different.append(each)
    if len(different) == 1:
        return different[0], []
    scores = [evenness(each.ms) for each in different]
    best = int(np.argmax(scores))
    others = max(score for at, score in enumerate(scores) if at != best)
    if scores[best] >= 0.5 and others <= _UNEVEN * scores[best] and not any(
        _monthly(each.ms) for at, each in enumerate(different) if at != best
    ):  # fmt: skip
        return different[best], [
            f"{times.label!r} is read as {said(different[best])}, {_span(different[best].ms)}: "
            f"only so are its steps even; as {said(different[1 - best if best < 2 else 0])} it would be "
            f"{_span(different[1 - best if best < 2 else 0].ms)}"
        ]
    flag = f"--date-order {' or '.join(ORDERS)}" if {e.how for e in different} & {*ORDERS} else "--time, or ISO 8601"
    shown = "; ".join(f"{said(each)}: {_span(each.ms)}" for each in different)
    raise SettingsError(
        f"{name}, column {times.label!r}: all its dates may have the day or the month first, or fit twice: {shown}; "
        f"say which with {flag}"
    )


def said(stamp: Stamps) -> str:
    """The interpretation of stamps, in words."""
    words = {
        "dmy": "day, month, year", "mdy": "month, day, year", "ymd": "year, month, day", "typed": "timestamps",
        "compact": "digits of a date", "parts": "parts of a date", "month": "months",
    }  # fmt: skip
    units = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
    if stamp.how in units:
        return f"{units[stamp.how]} since 1970"
    return words.get(stamp.how, "dates with names of months")


def _span(ms: Ints) -> str:
    known = ms[ms != NO_TIME]
    return f"from {text_of_ms(int(known[0]))} to {text_of_ms(int(known[-1]))}"


def evenness(ms: Ints) -> float:
    """The evenness of stamps, 0 to 1: share of the usual step, and of the steps of their span."""
    known = ms[ms != NO_TIME]
    unique = np.unique(known)
    if len(unique) < 3:
        return 1.0 if len(unique) else 0.0
    gaps = np.diff(unique)
    steps, counts = np.unique(gaps, return_counts=True)
    usual = int(steps[np.argmax(counts)])
    share = counts.max() / len(gaps)
    coverage = len(unique) / ((unique[-1] - unique[0]) / usual + 1)
    moves = np.diff(known)
    forward = (moves >= 0).mean()
    return float(min(share, coverage, forward))


def _monthly(ms: Ints) -> bool:
    """Whether stamps are the first of consecutive months."""
    unique = np.unique(ms[ms != NO_TIME]).astype("datetime64[ms]")
    if len(unique) < 3:
        return False
    months = unique.astype("datetime64[M]")
    return bool((unique == months).all() and (np.diff(months.astype(np.int64)) == 1).all())


def _chosen(decided: Sequence[tuple[Times, Stamps, list[str]]], name: str) -> tuple[Times, Stamps, list[str]]:
    """The only even one of several columns of times.

    Raises:
        SettingsError: several columns are even.
    """
    decided = sorted(decided, key=lambda each: not each[1].zoned)  # columns with a zone come first
    kept = [decided[0]]
    for each in decided[1:]:
        if not any(_same(each[1], other[1]) for other in kept):
            kept.append(each)
    if len(kept) == 1:
        return kept[0]
    distinct = [len(np.unique(each[1].ms)) for each in kept]
    kept = [each for each, count in zip(kept, distinct, strict=True) if count > max(distinct) / 2]
    if len(kept) == 1:
        return kept[0]
    scores = [evenness(each[1].ms) for each in kept]
    even = [each for each, score in zip(kept, scores, strict=True) if score >= _EVEN]
    labels = [each[0].label for each in kept]
    if len(even) > 1:
        shown = "; ".join(f"{each[0].label}: {_span(each[1].ms)}" for each in even)
        raise SettingsError(
            f"{name}: the columns {listed([e[0].label for e in even])} all hold even times: {shown}; "
            f"say which counts with --time {' or --time '.join(repr(e[0].label) for e in even)}"
        )
    times, stamp, notes = kept[int(np.argmax(scores))] if even else kept[0]
    others = [label for label in labels if label != times.label]
    why = "its steps are even" if even else "the first of them; none is even"
    return times, stamp, [*notes, f"time is {times.label!r} and not {listed(others)}: {why}"]


def _same(first: Stamps, second: Stamps) -> bool:
    """Whether two columns hold the same moments, or the same clock with and without its zone."""
    away = first.ms // 1000 - second.ms // 1000
    if not away.any():
        return True
    shift = abs(int(away[0])) if len(away) else 0
    return first.zoned != second.zoned and bool((away == away[0]).all()) and shift <= 14 * 3600 and shift % 900 == 0
