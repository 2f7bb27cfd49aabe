"""Places the rows of a table in memory on even grids, by the rules for files: see `glaim_stream.files`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError, listed
from glaim_stream.core.times import NO_TIME
from glaim_stream.files import (
    Cells,
    JudgedReadings,
    ReadingColumn,
    Series,
    StrayRows,
    Told,
    as_logged,
    found_times,
    is_text,
    layout_of,
    names_quality,
    note,
    order_of,
    qualities,
    series_of,
    without_stray_rows,
)
from glaim_stream.tables.frame import Frame, TableError, TableTypeError

Ints = NDArray[np.int64]

ROW_MS = 60_000  # step of rows without times
UNDATED = "in a row without a time"
STRAY = "in a row whose time is far from all others"
_NUMBER, _DECIMAL = r"^[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?$", r"^[+-]?\d*[.,]\d+$"
_NAME = "the table"
_INDEX = "the index"
_FLAGS = (  # parts of the messages for commands, and what they are for arguments
    (r"with --date-order dmy or mdy", "by a column of times in place of text"),
    (r"--(time|group) ('[^']*'|COLUMN)", r"\1=\2"),
    (r"--missing ('[^']*')", r"missing=[\1]"),
)


@dataclass(frozen=True)
class Flags:
    """A caller's statements about a table; None: detected.

    time: name of the column of times; False takes the rows as even steps.
    group: name of one or many columns, or levels of the index, that distinguish the series of a long table.
    columns: names of the columns to fill.
    missing: numbers that mean a missing value, and marks of bad quality, as text: see `glaim_stream.files.read`.
    """

    time: Any = None
    group: Any = None
    columns: Sequence[Any] | None = None
    missing: Sequence[str] = ()


@dataclass(frozen=True)
class Placed:
    """A table's readings on even grids.

    names: names of the columns of readings, in the order of `cells.columns`.
    timed: True if rows have times; otherwise they are even steps.
    zone: name of the zone of the times, if stated.
    left: number of holes in rows off the grids, by reason.
    unused: what the cells are that are neither filled nor used, with their number, by column.
    zoned: True if the times have a zone or an offset.
    notes: sentences on numbers that mean a missing value or may, readings marked as bad, and empty cells that are no
        holes.
    """

    names: tuple[Any, ...]
    cells: Cells
    series: Series
    timed: bool
    zone: str | None
    stray: StrayRows | None
    left: Counter[str]
    unused: dict[Any, str]
    zoned: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Rows:
    """Times, groups and perhaps the sensors of rows; the names of the columns that tell them are `taken`."""

    times_ms: Ints | None
    zone: str | None
    group_of_row: Ints
    groups: tuple[str, ...]
    taken: frozenset[Any]
    sensor: Any = None
    value: Any = None
    zoned: bool = False


def placed(frame: Frame, flags: Flags, step_ms: int | None = None, sensors: Sequence[str] | None = None) -> Placed:
    """Place the rows of a table on even grids, one per group.

    Args:
        frame: the table.
        flags: the caller's statements.
        step_ms: time between two steps; found from the times by default.
        sensors: names of the sensors of an earlier table, where each row holds one reading.

    Raises:
        TableError, TableTypeError: a stated column is absent or has the wrong type, times or groups are ambiguous, or
            there are rows without any time.
        SettingsError: the times show no grid.
    """
    found = _rows(frame, flags)
    names = _readings(frame, found, flags.columns)
    known = tuple(str(name) for name in names)
    sensor_of_row = None
    if found.sensor is not None:
        known, sensor_of_row = _sensor_of_row(frame.labels(found.sensor), sensors)
    timed = found.times_ms is not None
    times_ms = _places_in(found.group_of_row) * ROW_MS if found.times_ms is None else found.times_ms
    if frame.rows and (times_ms == NO_TIME).all():
        raise TableError(f"expected rows with a time, found none in {frame.rows:,} rows")
    judged = _judged(frame, found, names, known, sensor_of_row, flags)
    names = tuple(name for name in names if str(name) not in judged.marks)
    known = known if sensor_of_row is not None else tuple(map(str, names))
    columns, undated = [], 0
    for place, name in enumerate(map(str, names)):
        sensor = np.full(frame.rows, place) if sensor_of_row is None else sensor_of_row
        value, unused = judged.values[name], judged.kept[name]
        hole = np.isnan(value) & ~unused
        undated += int((hole & (times_ms == NO_TIME)).sum())
        hole &= times_ms != NO_TIME
        columns.append(
            ReadingColumn(place, name, found.group_of_row, sensor, value, hole, unused, judged.doubted[name])
        )
    cells = Cells(times_ms, found.groups, known, tuple(columns), long=sensor_of_row is not None)
    if timed:
        step = order_of(times_ms, found.group_of_row, sensor_of_row).step_ms
        cells = as_logged(cells, () if cells.long else _texts(frame, {*found.taken, *names}), step)
    kept, stray = without_stray_rows(cells) if timed else (cells, None)
    series = series_of(kept, step_ms=step_ms if timed else ROW_MS, may_be_empty=True)
    left = Counter({UNDATED: undated, STRAY: cells.holes - kept.holes})
    kept = series.expected(kept) if timed else kept
    unused_cells = dict(judged.infinite)
    if flags.columns is None and found.value is None:
        unused_cells |= texts_of_numbers(frame, flags)
    notes = (*judged.notes, *map(_said, kept.notes))
    return Placed(names, kept, series, timed, found.zone, stray, +left, unused_cells, found.zoned, notes)


@dataclass(frozen=True)
class _Judged:
    """Readings [rows] by column, NaN where missing or not used; cells that are not used, or doubted; and what was said.

    marks: columns of quality among those of numbers.
    infinite: what the infinite cells are, by column.
    """

    values: dict[str, NDArray[np.float64]]
    kept: dict[str, NDArray[np.bool_]]
    doubted: dict[str, NDArray[np.bool_]]
    marks: set[str]
    infinite: dict[Any, str]
    notes: tuple[str, ...]


def _judged(
    frame: Frame, rows: _Rows, names: Sequence[Any], sensors: Sequence[str], sensor_of_row: Ints | None, flags: Flags
) -> _Judged:
    """Judge the cells of columns of numbers by the rules for files.

    Raises:
        TableError: it is unclear which marks of a column of quality are bad, or a stated column is absent.
    """
    values = {str(name): np.where(np.isinf(each := frame.numbers[name].values), np.nan, each) for name in names}
    kept = {str(name): np.isinf(frame.numbers[name].values) for name in names}
    infinite = {name: f"{int(cells.sum()):,} infinite cells" for name, cells in kept.items() if cells.any()}
    told = Told.of(flags.missing)
    stated = set() if flags.columns is None else set(map(str, flags.columns))
    others = {
        str(name): frame.arrow(name) if names_quality(str(name)) or str(name) in told.texts else None
        for name in frame.names if name not in rows.taken
    }  # fmt: skip
    try:
        told.require(_NAME, {*others, *sensors})
        marks = qualities(
            {name: cells for name, cells in others.items() if name in values or name not in stated}, values,
            {name: texts for name, texts in told.texts.items() if name not in values or texts == [""]},
            sensor_of_row=sensor_of_row, group_of_row=rows.group_of_row, name=_NAME,
        )  # fmt: skip
    except SettingsError as error:
        raise TableError(_said(error)) from error
    marks = [each for each in marks if each.column not in stated]
    for mark in marks:
        values.pop(mark.column, None)
    long = sensor_of_row is not None
    readings = JudgedReadings(
        values, tuple(sensors if long else values), sensor_of_row, next(iter(values), "") if long else ""
    )
    found, said = readings.judge(kept, marks, told)
    doubted = {name: readings.doubted(name, found) for name in values}
    notes = tuple(map(_said, (*said, *map(note, found))))
    return _Judged(values, kept, doubted, {each.column for each in marks}, infinite, notes)


def _texts(frame: Frame, but: Collection[Any]) -> list[Any]:
    """The columns of text, without some."""
    cells = [frame.arrow(name) for name in frame.names if name not in but and name not in frame.numbers]
    return [each for each in cells if is_text(each.type)]


def texts_of_numbers(frame: Frame, flags: Flags) -> dict[Any, str]:
    """What the columns of text are that mostly hold numbers, by name; those of whole numbers without a hole are ids."""
    found, taken = {}, _rows(frame, flags).taken
    for name in frame.names:
        if name in frame.numbers or name in taken or not is_text((cells := frame.arrow(name)).type):
            continue
        text = pc.utf8_trim_whitespace(pc.fill_null(cells, ""))
        numbers, decimals = (pc.sum(pc.match_substring_regex(text, each)).as_py() or 0 for each in (_NUMBER, _DECIMAL))
        holes = frame.rows - numbers
        if numbers and (decimals or holes) and 2 * numbers >= frame.rows - (pc.sum(pc.equal(text, "")).as_py() or 0):
            found[name] = f"{numbers:,} numbers as text, {holes:,} other or empty cells"
    return found


def readings_in(frame: Frame, flags: Flags) -> tuple[Any, ...]:
    """Find the columns of readings. Whole numbers without a hole may be years, ids or flags; they need no fill."""
    return _readings(frame, _rows(frame, flags), flags.columns)


def require_column(frame: Frame, name: Any) -> None:
    """Require that a table has a column.

    Raises:
        TableError: the column is absent.
    """
    if name not in frame.names:
        raise TableError(f"expected a column {name!r}, found {listed(frame.names)}")


def _readings(frame: Frame, rows: _Rows, stated: Sequence[Any] | None) -> tuple[Any, ...]:
    if stated is not None:
        for name in stated:
            require_column(frame, name)
            if name not in frame.numbers:
                raise TableTypeError(f"column {name!r} holds no numbers, so it cannot be filled")
        return tuple(stated)
    if rows.value is not None:
        return (rows.value,)
    return tuple(
        name
        for name, column in frame.numbers.items()
        if name not in rows.taken and (not column.whole or bool(np.isnan(column.values).any()))
    )


def _rows(frame: Frame, flags: Flags) -> _Rows:
    name_of = {str(name): name for name in frame.names}
    times_ms, zone, zoned, used = _times(frame, flags.time)
    taken = {name_of[column] for column in used}
    groups, sensor, value = _stated_groups(frame, flags.group), None, None
    if not groups and times_ms is not None and (times_ms != NO_TIME).any():
        table = {name: frame.arrow(each) for name, each in name_of.items() if each not in taken}
        numbers = {name: cells for name, cells in table.items() if name_of[name] in frame.numbers}
        try:
            found = layout_of(table, numbers, times_ms, None, "", "", _NAME)
        except SettingsError as error:
            raise TableError(_said(error)) from error
        groups = [name_of[found.group]] if found.group else []
        if found.sensor and (flags.columns is None or list(flags.columns) == [name_of[found.value]]):
            sensor, value = name_of[found.sensor], name_of[found.value]
    labels = [frame.labels(name) for name in groups]
    names, group_of_row = coded([" / ".join(parts) for parts in zip(*labels, strict=True)] or [""] * frame.rows)
    taken |= {*groups, sensor}
    return _Rows(times_ms, zone, group_of_row, names or ("",), frozenset(taken), sensor, value, zoned)


def _times(frame: Frame, time: Any) -> tuple[Ints | None, str | None, bool, tuple[str, ...]]:
    """Times int64 [rows] or None, the name of their zone if stated, whether they have one, and their columns."""
    if time is False:
        return None, None, False, ()
    wanted = ""
    if time is not None:
        require_column(frame, time)
        wanted, table = str(time), {str(time): frame.arrow(time)}
    elif frame.index_times is not None:
        wanted, table = _INDEX, {_INDEX: frame.index_times}
    else:
        table = {str(name): frame.arrow(name) for name in frame.names if name not in frame.numbers}
    try:
        found = found_times(table, wanted, _NAME)
    except SettingsError as error:
        raise (TableTypeError if wanted else TableError)(_said(error)) from error
    if found is None:
        return None, None, False, ()
    stamp, columns = found
    for column in columns:
        _require_milliseconds(table[column], _INDEX if wanted == _INDEX else f"column {column!r}")
    zones = [zone for column in columns if (zone := getattr(table[column].type, "tz", None))]
    return stamp.ms, zones[0] if zones else None, stamp.zoned, () if wanted == _INDEX else columns


def _require_milliseconds(cells: Any, what: str) -> None:
    """Require that successive timestamps usually differ by a millisecond or more.

    Raises:
        TableError: most times are closer.
    """
    per_ms = {"us": 1_000, "ns": 1_000_000}.get(getattr(cells.type, "unit", ""), 0)
    if per_ms and pa.types.is_timestamp(cells.type):
        differences = np.diff(np.unique(pc.cast(cells.drop_null(), pa.int64()).to_numpy()))
        if len(differences) and np.median(differences) < per_ms:
            raise TableError(
                f"{what} has steps of less than a millisecond: pass time=False to take the rows as even steps"
            )


def _stated_groups(frame: Frame, group: Any) -> list[Any]:
    """The columns and levels of the index that name the groups, stated or in the index."""
    if group is None:
        return list(frame.index_groups)
    stated = list(group) if isinstance(group, (list, tuple)) and group not in frame.names else [group]
    known = [*frame.names, *frame.index_groups]
    for name in stated:
        if name not in known:
            raise TableError(f"expected a column {name!r} to group by, found {listed(known)}")
    return stated


def _sensor_of_row(labels: Sequence[str], known: Sequence[str] | None) -> tuple[tuple[str, ...], Ints]:
    """Names of the sensors and the code of each row's.

    Raises:
        TableError: a row names a sensor that is not among the known ones.
    """
    found, of_row = coded(labels)
    if known is None:
        return found, of_row
    others = [name for name in found if name not in known]
    if others:
        raise TableError(f"{listed(others)}: sensors that the fit has not seen")
    place = {name: code for code, name in enumerate(known)}
    return tuple(known), np.array([place[name] for name in found], np.int64)[of_row]


def coded(names: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    """Return the different names in their order, and the code of each one, int64."""
    codes: dict[str, int] = {}
    code = np.array([codes.setdefault(name, len(codes)) for name in names], np.int64)
    return tuple(codes), code


def _places_in(codes: Ints) -> Ints:
    """The number of earlier rows with the same code, int64 [rows]."""
    order = np.argsort(codes, kind="stable")
    first = np.searchsorted(codes[order], codes[order])
    out = np.empty(len(codes), np.int64)
    out[order] = np.arange(len(codes)) - first
    return out


def _said(message: SettingsError | str) -> str:
    """A message of `files`, in the words of arguments."""
    text = str(message)
    for flag, argument in _FLAGS:
        text = re.sub(flag, argument, text)
    return text
