"""Converts time columns of files to epoch milliseconds. The time zone is given, never guessed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.errors import SettingsError
from glaim_stream.feed.kinds import is_text
from glaim_stream.times import EARLIEST_MS, LATEST_MS, zone_of

# A column of numbers in this range holds seconds, 1989 to 2103: as milliseconds they would be weeks of 1970.
_SECONDS = (600_000_000, 4_200_000_000)
ORDERS = ("dmy", "mdy")  # of dates that do not begin with their year
_DATE_PATTERN = (
    r"^(?P<first>\d{1,4})(?P<mark>[-/.])(?P<second>\d{1,2})[-/.](?P<third>\d{1,4})"
    r"(?:[ T]+(?P<hour>\d{1,2})(?P<rest>:\d{2}(?::\d{2}(?:\.\d{1,9})?)?) *(?P<half>[AaPp][Mm])?)?$"
)


def column_ms(column: Any, *, timezone: str, what: str, order: str = "") -> NDArray[np.int64]:
    """Epoch milliseconds, int64 [n], of an Arrow column of timestamps, dates, text, epoch milliseconds or seconds.

    Text is ISO 8601, or a date in another order, alone or with a time of day: `2026/1/31 7:05`, `31.01.2026 07:05:00`,
    `1/31/2026 7:05 PM`. Whether 01/02 is in January or in February must follow from the column's other dates.

    Args:
        column: an Arrow array.
        timezone: zone of timestamps that carry none.
        what: name of the column in an error.
        order: of dates that do not begin with their year, one of ORDERS; empty: inferred from the column.

    Raises:
        SettingsError: a row has no time, or one that cannot be read, or the order of the dates cannot be inferred.
    """
    zone_of(timezone)
    if is_text(column.type):
        column = _parsed(pc.utf8_trim_whitespace(column), what, order)
    if pa.types.is_date(column.type):
        column = pc.cast(column, pa.timestamp("ms"))
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise SettingsError(f"{what}: expected a time in every row, found none in row {row}")
    if pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            # An hour that occurs twice or never (summer time) is read as the earlier one.
            column = pc.assume_timezone(column, timezone, ambiguous="earliest", nonexistent="earliest")
        column = pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False)
    elif in_seconds(column):
        column = pc.round(pc.multiply(pc.cast(column, pa.float64()), 1000.0))
    elif not pa.types.is_integer(column.type):
        raise SettingsError(f"{what}: expected timestamps, text, epoch milliseconds or seconds, found {column.type}")
    times = pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False)
    if len(times) and not EARLIEST_MS <= int(times.min()) <= int(times.max()) <= LATEST_MS:
        raise SettingsError(f"{what}: expected epoch milliseconds of 1900 to 2200, found {int(times[0])}")
    return times  # type: ignore[no-any-return]


def joined(table: pa.Table, name: str) -> pa.Table:
    """The table with the two columns that `Date+Clock` names joined into one column of that name."""
    parts = name.split("+")
    if name in table.column_names or len(parts) != 2 or not {*parts} <= {*table.column_names}:
        return table
    date, clock = (pc.utf8_trim_whitespace(pc.cast(table.column(part), pa.string())) for part in parts)
    return table.drop_columns(parts).append_column(name, pc.binary_join_element_wise(date, clock, " "))


def in_seconds(column: Any) -> bool:
    """Whether an Arrow column holds epoch seconds and nothing else."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return False
    span = pc.min_max(column).as_py()
    return span["min"] is not None and _SECONDS[0] <= span["min"] <= span["max"] <= _SECONDS[1]


def _parsed(text: Any, what: str, order: str) -> Any:
    """Timestamps, with a zone where every text names one."""
    for zone in ("UTC", None):
        with suppress(pa.ArrowInvalid):
            return pc.cast(text, pa.timestamp("ns", zone))
    parts = pc.extract_regex(text, _DATE_PATTERN)
    unreadable = pc.and_(pc.is_null(parts), pc.is_valid(text))
    if pc.any(unreadable).as_py():
        raise SettingsError(f"{what}: expected times such as 2017-02-01T05:00:00Z, found {text.filter(unreadable)[0]}")
    part = {name: pc.struct_field(parts, name) for name in ("first", "mark", "second", "third", "hour", "rest", "half")}
    clock = _clock(part["hour"], part["rest"], part["half"])
    candidates, reason = [], ""
    for each in _orders(part["mark"], part["first"], order):
        date = dict(zip(each, (part["first"], part["second"], part["third"]), strict=True))
        month, day = (pc.utf8_lpad(date[name], 2, "0") for name in "md")
        iso = pc.binary_join_element_wise(pc.binary_join_element_wise(date["y"], month, day, "-"), clock, " ")
        try:
            candidates.append(pc.cast(iso, pa.timestamp("ns")))
        except pa.ArrowInvalid as error:  # a 13th month, a 31st of February, a year of two digits
            reason = str(error)
    if not candidates:
        raise SettingsError(f"{what}: expected dates with a year of four digits, all in one order: {reason}")
    if any(not each.equals(candidates[0]) for each in candidates):
        raise SettingsError(
            f"{what}: {text[0]} and all others may have the day or the month first: say which with --date-order "
            f"{' or '.join(ORDERS)}"
        )
    return candidates[0]


def _orders(mark: Any, first: Any, order: str) -> tuple[str, ...]:
    """Possible orders of year, month and day."""
    if pc.all(pc.equal(pc.utf8_length(first), 4)).as_py():
        return ("ymd",)
    if order:
        return (order,)
    return ("dmy",) if pc.all(pc.equal(mark, ".")).as_py() else ORDERS  # with dots the month never comes first


def _clock(hour: Any, rest: Any, half: Any) -> Any:
    """Times of day in ISO 8601; midnight where there is none."""
    number = pc.cast(pc.if_else(pc.equal(hour, ""), "0", hour), pa.int64())
    twelve = pc.if_else(pc.equal(number, 12), 0, number)
    after_noon = pc.add(twelve, pc.if_else(pc.equal(pc.utf8_lower(half), "pm"), 12, 0))
    number = pc.if_else(pc.equal(half, ""), number, after_noon)
    padded = pc.utf8_lpad(pc.cast(number, pa.string()), 2, "0")
    return pc.binary_join_element_wise(padded, pc.if_else(pc.equal(rest, ""), ":00", rest), "")
