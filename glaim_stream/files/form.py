"""The form of a file of readings, and the readings themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from glaim_stream.core.times import NO_TIME, text_of_ms

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))


@dataclass(frozen=True, slots=True)
class TextForm:
    """The form of a file of separated text; its `lines` are counted from 0, including blank ones."""

    encoding: str = "utf-8"  # "utf-8", "utf-16-le", "utf-16-be" or "latin-1", in which every byte is valid
    byte_order_mark: bool = False
    newline: str = "\n"  # end of the first line
    separator: str = ","  # " ": any number of blanks and tabs
    header: tuple[str, ...] = ()  # names as in the file
    header_line: int = 0
    preamble: tuple[str, ...] = ()  # lines above the header
    below_header: tuple[str, ...] = ()  # lines of units or types between the header and the readings
    footer: tuple[str, ...] = ()  # lines of another shape below the readings


@dataclass(frozen=True, slots=True)
class NumberForm:
    """The format of a column's numbers: decimal sign, thousands separator, unit ("" for none)."""

    decimal: str = "."
    thousands: str = ""
    suffix: str = ""  # unit after each number with the blank before it, such as " kW"


@dataclass(frozen=True, slots=True)
class Sentinel:
    """A number far outside a column's other values that may mean a missing value."""

    column: str
    value: float
    count: int
    below: float  # nearest values on both sides; NaN without one
    above: float
    taken: bool  # True: read as missing; otherwise the cells stay observed and fill no other
    amid: bool = False  # a reading all the same: among others, or as frequent as all others together


@dataclass(frozen=True, slots=True)
class FileForm:
    """The form of a file. `time`, `group`, `sensor` and `value` name columns; "" without one.

    A time of several columns joins their names by `+`: `Date+Time`, `year+month+day+hour`. In a long file each row is a
    reading: `sensor` names it and `value` holds it.
    """

    kind: str  # csv, las, jsonl, parquet or arrow
    compression: str  # gzip or ""
    columns: tuple[str, ...]  # all columns of the file, in order
    time: str
    sensors: tuple[str, ...]
    text: TextForm | None = None
    timezone: str = "UTC"  # zone of stamps that carry none
    date_order: str = ""  # dmy or mdy, where it matters
    first_ms: int = NO_TIME
    last_ms: int = NO_TIME
    step_ms: int = 0  # most frequent time between two stamps of a group
    layout: str = "wide"  # or "long"
    group: str = ""
    sensor: str = ""
    value: str = ""
    name_separator: str = ""  # columns of a wide file are <group><separator><sensor>
    numbers: Mapping[str, NumberForm] = field(default_factory=dict)  # formats of numbers by column of a text file
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # words that mean a missing value, by column
    sentinels: tuple[Sentinel, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)  # units by column
    unused: Mapping[str, str] = field(default_factory=dict)  # reasons by column
    duplicates: int = 0  # rows whose group and time occurred before
    out_of_order: int = 0  # rows older than one before them in their group
    lateness_ms: int = 0  # largest time by which a row is out of order
    untimed: int = 0  # rows without a time
    axis: tuple[float, float] | None = None  # depth or elapsed time at time 0, and per millisecond
    zone: str = ""  # column that states the zone of each row
    notes: tuple[str, ...] = ()  # sentences to print

    def moment(self, ms: int) -> str:
        """A time as text, or the depth or elapsed time behind it."""
        return text_of_ms(ms) if self.axis is None else self._depth(self.axis[0] + ms * self.axis[1])

    def length(self, ms: int) -> str:
        """A difference of times as text, or of the depths behind them."""
        return duration(ms) if self.axis is None else self._depth(ms * self.axis[1])

    def _depth(self, depth: float) -> str:
        return f"{depth:.8g} {self.units.get(self.time, '')}".strip()

    @property
    def taken(self) -> dict[str, tuple[float, ...]]:
        """Numbers that were read as missing values, by column."""
        found: dict[str, tuple[float, ...]] = {}
        for each in self.sentinels:
            if each.taken:
                found[each.column] = (*found.get(each.column, ()), each.value)
        return found


def duration(milliseconds: int) -> str:
    """A duration in its largest whole unit."""
    for length, unit in _UNITS:
        if milliseconds % length == 0:
            return f"{milliseconds // length:,} {unit}"
    return f"{milliseconds} ms"


@dataclass(frozen=True, slots=True)
class Reading:
    """The readings of a file, row by row in order; NaN where a value is missing.

    `values` are float64 [C, R] of C sensors, in the order of `form.sensors`. In a long file they are [1, R], and
    `sensor_of_row` holds indices into `form.sensors`, -1 where the row names none.
    """

    form: FileForm
    table: pa.Table  # all columns, as numbers where they hold numbers, else as in the file
    times_ms: NDArray[np.int64]  # [R]; NO_TIME where the row has none
    groups: tuple[str, ...]  # names; empty where the file names no group
    group_of_row: NDArray[np.int64]  # [R]; -1 where the row names none, 0 everywhere in a file without groups
    values: NDArray[np.float64]
    kept: NDArray[np.bool_]  # [C, R]; cells that hold something else than a usable reading, and stay as they are
    doubted: NDArray[np.bool_]  # [C, R]; readings that may mean a missing value, and fill no other cell
    sensor_of_row: NDArray[np.int64] | None = None
    places: tuple[int, ...] = ()  # indices of the sensors' columns in the file (long: of the value's)
    line_of_row: NDArray[np.int64] | None = None  # line of each row of text, from 0

    @property
    def timed(self) -> NDArray[np.bool_]:
        """Rows with a time, bool [R]."""
        return np.asarray(self.times_ms != NO_TIME)

    @property
    def rows(self) -> int:
        """R, the number of rows of the file."""
        return len(self.times_ms)
