"""The form of a file of readings as it was found out, and the readings themselves."""

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
    """Form of a file of separated text; `lines` of it are counted from 0, and blank ones count."""

    encoding: str = "utf-8"  # "utf-8", "utf-16-le", "utf-16-be" or "latin-1", in which every byte is valid
    byte_order_mark: bool = False
    newline: str = "\n"  # of the first line
    separator: str = ","  # " ": any number of blanks and tabs
    header: tuple[str, ...] = ()  # names as they stand in the file
    header_line: int = 0
    preamble: tuple[str, ...] = ()  # lines above the header
    below_header: tuple[str, ...] = ()  # lines of units or types between the header and the readings
    footer: tuple[str, ...] = ()  # lines of another shape below the readings


@dataclass(frozen=True, slots=True)
class NumberForm:
    """How a column writes numbers: its decimal sign, the sign between thousands, the unit ("" for none)."""

    decimal: str = "."
    thousands: str = ""
    suffix: str = ""  # the unit behind each number with the blank before it, such as " kW"


@dataclass(frozen=True, slots=True)
class Sentinel:
    """A number far outside of a column's other values that may stand for no value."""

    column: str
    value: float
    count: int
    below: float  # the nearest values on both sides; NaN where there is none
    above: float
    taken: bool  # as no value; otherwise the cells stay observed, and a note names the flag


@dataclass(frozen=True, slots=True)
class FileForm:
    """What a file is. `time`, `group`, `sensor` and `value` name columns; "" where there is none.

    A time of several columns joins their names by `+`: `Date+Time`, `year+month+day+hour`. In a long file each row is a
    reading: `sensor` names it and `value` holds it.
    """

    kind: str  # csv, las, jsonl, parquet or arrow
    compression: str  # gzip or ""
    columns: tuple[str, ...]  # all columns of the file, in its order
    time: str
    sensors: tuple[str, ...]
    text: TextForm | None = None
    timezone: str = "UTC"  # of stamps that carry no zone
    date_order: str = ""  # dmy or mdy, where it matters
    first_ms: int = NO_TIME
    last_ms: int = NO_TIME
    step_ms: int = 0  # most frequent distance of two stamps of a group
    layout: str = "wide"  # or "long"
    group: str = ""
    sensor: str = ""
    value: str = ""
    name_separator: str = ""  # the columns of a wide file are <group><separator><sensor>
    numbers: Mapping[str, NumberForm] = field(default_factory=dict)  # by column, of text files
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by column: words that stand for no value
    sentinels: tuple[Sentinel, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)  # by column
    unused: Mapping[str, str] = field(default_factory=dict)  # reason by column
    duplicates: int = 0  # rows whose group and time occurred before
    out_of_order: int = 0  # rows that are older than one before them in their group
    lateness_ms: int = 0  # by how much at most
    untimed: int = 0  # rows without a time
    axis: tuple[float, float] | None = None  # of depths or elapsed times: that at time 0, and for each millisecond
    zone: str = ""  # column that states the zone of each row
    notes: tuple[str, ...] = ()  # sentences to print

    def moment(self, ms: int) -> str:
        """A time as text, or the depth or elapsed time that it stands for."""
        return text_of_ms(ms) if self.axis is None else self._depth(self.axis[0] + ms * self.axis[1])

    def length(self, ms: int) -> str:
        """A difference of times as text, or that of the depths which they stand for."""
        return duration(ms) if self.axis is None else self._depth(ms * self.axis[1])

    def _depth(self, depth: float) -> str:
        return f"{depth:.8g} {self.units.get(self.time, '')}".strip()

    @property
    def taken(self) -> dict[str, tuple[float, ...]]:
        """Numbers that were taken as no value, by column."""
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
    """The readings of a file, row by row in its order; NaN where there is no value.

    `values` are float64 [C, R] of C sensors, in the order of `form.sensors`. In a long file they are [1, R], and
    `sensor_of_row` holds the index into `form.sensors`, -1 where the row names none.
    """

    form: FileForm
    table: pa.Table  # all columns: numbers where the column holds numbers, else as in the file
    times_ms: NDArray[np.int64]  # [R]; NO_TIME where the row has none
    groups: tuple[str, ...]  # names; empty where the file names no group
    group_of_row: NDArray[np.int64]  # [R]; -1 where the row names none, 0 everywhere in a file without groups
    values: NDArray[np.float64]
    sensor_of_row: NDArray[np.int64] | None = None
    places: tuple[int, ...] = ()  # of each sensor's column in the file (of a long file: of the value's)
    line_of_row: NDArray[np.int64] | None = None  # of text: the line of each row, counted from 0

    @property
    def timed(self) -> NDArray[np.bool_]:
        """Rows with a time, bool [R]."""
        return np.asarray(self.times_ms != NO_TIME)

    @property
    def rows(self) -> int:
        """R, the rows of the file."""
        return len(self.times_ms)
