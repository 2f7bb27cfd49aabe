"""Guesses which column of a file holds its times, and reports how they were read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from glaim_stream.errors import SettingsError, listed
from glaim_stream.feed.kinds import is_text
from glaim_stream.feed.time_columns import ORDERS, column_ms, in_seconds
from glaim_stream.times import text_of_ms
from training.data.series import DataSpec
from training.data.tables import times_of
from training.errors import DataError

NAMES = ("time", "ts", "timestamp", "datetime", "time_ms", "ts_ms", "timestamp_ms", "epoch_ms")
SAMPLE = 2000  # rows looked at
CLOCK = r"^\s*\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( *[AaPp][Mm])?\s*$"
MILLISECONDS = (600_000_000_000, 4_200_000_000_000)  # of 1989 to 2103


def time_column(table: pa.Table, file: Path) -> str:
    """Return the first column with the type or name of a time column, else the first whose numbers are in its range.

    `Date+Clock` where a second column holds the times of day.

    Raises:
        DataError: there is none, or the first row has no column names.
    """
    columns = {name: table.column(name) for name in table.column_names}
    found = [name for name, column in columns.items() if _is_time(column, name)]
    found = found or [name for name, column in columns.items() if _has_size_of_time(column)]
    if not found:
        raise DataError(
            f"{file.name}: expected a column of times (timestamps, text, epoch milliseconds or seconds), found columns "
            f"{listed(table.column_names)}; where each row is a step, give --set data.time= --set data.step_s=SECONDS"
        )
    time = found[0]
    if _is_time(pa.array([time]), name=""):
        raise DataError(f"{file.name}: expected the names of the columns in the first row, found {time}")
    clock = next((name for name, column in columns.items() if _is_clock(column)), None)
    return f"{time}+{clock}" if clock is not None and _is_date(columns[time]) else time


def as_read(table: pa.Table, spec: DataSpec, file: Path) -> list[str]:
    """Report how times that are neither ISO 8601 nor timestamps were read, by the example of the first.

    Raises:
        DataError: not all of them can be read.
    """
    column = table.column(spec.time)
    if not len(column) or not (is_text(column.type) or in_seconds(column)):
        return []
    return [f"its first time, {column[0]}, is {text_of_ms(int(times_of(table, spec, file)[0]))}"]


def _is_time(column: Any, name: str) -> bool:
    """Whether a column holds times by its type, its text or its name."""
    kind, named = column.type, name.lower() in NAMES
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return True
    if is_text(kind):
        return any(_reads(column.slice(0, SAMPLE), order) for order in ("", *ORDERS))
    return named and (pa.types.is_integer(kind) or in_seconds(column))


def _has_size_of_time(column: Any) -> bool:
    """Whether its integers differ and all lie in the range of times since 1989 (a large counter may too)."""
    if not pa.types.is_integer(column.type):
        return False
    span = pc.min_max(column).as_py()
    if span["min"] is None or span["min"] == span["max"]:
        return False
    return in_seconds(column) or MILLISECONDS[0] <= span["min"] <= span["max"] <= MILLISECONDS[1]


def _is_date(column: Any) -> bool:
    """Whether a time column has no time of day."""
    clocks = is_text(column.type) and pc.any(pc.match_substring(column.slice(0, SAMPLE), ":")).as_py()
    return bool(pa.types.is_date(column.type) or (is_text(column.type) and not clocks))


def _is_clock(column: Any) -> bool:
    """Whether a column holds times of day and nothing else."""
    if pa.types.is_time(column.type):
        return True
    head = column.slice(0, SAMPLE)
    return is_text(column.type) and bool(pc.all(pc.match_substring_regex(head, CLOCK)).as_py())


def _reads(head: Any, order: str) -> bool:
    try:
        return bool(len(column_ms(head, timezone="UTC", what="time", order=order)))
    except SettingsError:
        return False
