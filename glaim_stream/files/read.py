"""Reads a file of readings whose form nobody stated; what fits in two ways is a question, not a guess."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.errors import SettingsError, listed
from glaim_stream.files import roles
from glaim_stream.files.axes import along_axis, elapsed_column, unit_in
from glaim_stream.files.content import content_of, plain, typed_table
from glaim_stream.files.form import NO_TIME, FileForm, NumberForm, Reading, TextForm
from glaim_stream.files.kinds import is_number, is_text
from glaim_stream.files.numbers import described, floats_of, number_columns
from glaim_stream.files.order import order_of
from glaim_stream.files.sentinels import note as sentinel_note
from glaim_stream.files.sentinels import sentinels
from glaim_stream.files.text import SEPARATOR_NAMES, columns_of
from glaim_stream.files.times import candidates, said, times_of
from glaim_stream.files.well_log import WellLog
from glaim_stream.files.zones import utc, zone_column
from glaim_stream.times import text_of_ms, zone_of

_MOST_REPEATED, _FEW_ROWS = 0.5, 10
_NAMELESS = "index"  # name of the one column without a name, such as an index that pandas wrote


def read(
    source: Path | bytes,
    form: FileForm | None = None,
    *,
    time: str | None = None,
    timezone: str | None = None,
    date_order: str = "",
    decimal: str = "",
    group: str | None = None,
    sensors: Sequence[str] = (),
    missing: Sequence[str] = (),
    name: str = "",
) -> Reading:
    """Find out the form of a file and read it.

    Args:
        source: the file, or its bytes.
        form: of an earlier file: its time, group, sensors, zone, order of dates and numbers for no value are kept.
        time: time column, or several as `Date+Clock`.
        timezone: zone of stamps that carry none; default UTC.
        date_order: dmy or mdy.
        decimal: decimal sign, "." or ",".
        group: column that names the group of a row.
        sensors: columns that are sensors; default: those that hold measurements.
        missing: numbers and words that mean no value, in every column.
        name: of the file, for messages; default: the path's.

    Raises:
        SettingsError: the file cannot be read, or can be read in two ways.
    """
    name = name or (source.name if isinstance(source, Path) else "the data")
    if form is not None:
        time, timezone = time or form.time, timezone or form.timezone
        date_order, group = date_order or form.date_order, group or form.group or None
        sensors = sensors or (form.sensors if form.layout == "wide" else ())
    zone_of(timezone or "UTC")
    numbers_missing, words_missing = _told(missing)
    whole = read_table(source, missing=words_missing, decimal=decimal, name=name)
    if whole.log is not None and whole.log.missing is not None:
        numbers_missing.append(whole.log.missing)
    table, numbers = whole.columns, whole.numbers
    axis, zone = None, ""
    time_notes: list[str] = []
    along = whole.log.names[0] if whole.log is not None else elapsed_column(numbers)
    if whole.log is None and along and candidates({along: table[along]} if time == along else table, numbers):
        along = ""
    if along and time in (None, "", along):
        times, stamp, axis = along_axis(numbers, along, name)
        if whole.log is None:
            time_notes = [f"{along!r} holds no dates and counts up: it is taken as the time since a start"]
    else:
        times, stamp, time_notes = times_of(table, numbers, wanted=time or "", order=date_order, name=name)
        zone, stamp = zone_column({each: table[each] for each in table if each not in times.columns}, stamp)
        if zone:
            time_notes.append(f"the zones of the times are in {zone!r}")
    rest = [column for column in table if column not in (*times.columns, zone)]
    groups, group_of_row, group, sensor, value = _groups(
        {column: table[column] for column in rest}, numbers, stamp.ms, group, name
    )
    times_ms, zone_notes = utc(stamp, timezone or "UTC", group_of_row, name)
    odd = {**whole.odd, **dict.fromkeys(_other_times(table, numbers, times.columns), "another time")}
    taken_columns = {*times.columns, zone, group, sensor, value} - {""}
    unused = {} if sensor else _unused(numbers, rest, group, len(groups), odd)
    if sensors:
        absent = [each for each in sensors if each not in numbers]
        if absent:
            raise SettingsError(f"{name}: expected numbers in the columns {listed(absent)}, found none")
        unused = {each: unused.get(each, "not chosen") for each in rest if each not in (*sensors, group)}
    measured = (value,) if sensor else tuple(each for each in rest if each not in unused and each not in taken_columns)
    if not measured:
        reasons = "; ".join(_unused_notes(unused))
        raise SettingsError(
            f"{name}: expected columns of numbers beside the time, found {listed(list(table))}; {reasons}"
        )
    columns = {each: floats_of(numbers[each]) for each in measured}
    sensor_names, sensor_of_row = measured, None
    parts = columns
    if sensor:
        sensor_names, sensor_of_row = _names(numbers.get(sensor, table[sensor]))
        parts = {each: columns[value][sensor_of_row == place] for place, each in enumerate(sensor_names)}
    found = sentinels(parts, numbers_missing, {} if form is None else form.taken)
    for each in found:
        if each.taken:
            of_sensor = slice(None) if sensor_of_row is None else sensor_of_row == sensor_names.index(each.column)
            column = columns[value or each.column]
            column[of_sensor] = np.where(column[of_sensor] == each.value, np.nan, column[of_sensor])
    order = order_of(times_ms, group_of_row, sensor_of_row)
    if order.duplicates > _MOST_REPEATED * len(times_ms) and len(times_ms) >= _FEW_ROWS and not sensor:
        raise SettingsError(
            f"{name}, time {times.label!r}: {order.duplicates} of {len(times_ms)} rows repeat a time, and no column "
            "tells them apart: state --time with all columns of the time (Date+Clock), or --group"
        )
    date_order = stamp.how if stamp.how in ("dmy", "mdy") else ""
    separator = "" if group or sensor else roles.name_separator(measured)
    made = FileForm(
        kind=whole.kind, compression=whole.compression, columns=whole.names, time=times.label, sensors=sensor_names,
        text=whole.text,
        timezone="UTC" if stamp.zoned else timezone or "UTC", date_order=date_order, first_ms=order.first_ms,
        last_ms=order.last_ms, step_ms=order.step_ms, layout="long" if sensor else "wide", group=group or "",
        sensor=sensor, value=value, name_separator=separator,
        numbers={each: form for each, form in whole.number_forms.items() if each in measured},
        words=whole.words, sentinels=found,
        units={
            **({along: unit_in(along)} if axis else {}),
            **{each: f.suffix.strip() for each, f in whole.number_forms.items() if each in measured and f.suffix},
            **{each: unit for each, unit in whole.units.items() if each in measured or axis},
        }, unused=unused,
        duplicates=order.duplicates, out_of_order=order.out_of_order, lateness_ms=order.lateness_ms,
        untimed=order.untimed, axis=axis, zone=zone,
    )  # fmt: skip
    how = (
        []
        if axis or stamp.how in ("typed", "ymd")
        else [f"read as {said(stamp)}, the first is {text_of_ms(order.first_ms)}"]
    )
    notes = [
        *whole.notes, *([] if axis else [f"time is {times.label!r}" + "".join(f", {each}" for each in how)]),
        *time_notes, *zone_notes,
        *_group_notes(made, len(groups)), *_unused_notes(unused), *(sentinel_note(each) for each in found),
        *_order_notes(made),
    ]  # fmt: skip
    places = tuple(whole.names.index(each) for each in measured)
    return Reading(
        form=replace(made, notes=tuple(notes)),
        table=whole.arrow,
        times_ms=times_ms,
        groups=groups,
        group_of_row=group_of_row,
        values=np.stack([columns[each] for each in measured]),
        sensor_of_row=sensor_of_row,
        places=places,
        line_of_row=whole.line_of_row,
    )


def _told(missing: Sequence[str]) -> tuple[list[float], list[str]]:
    """Split what means no value into numbers and words."""
    numbers, words = [], []
    for text in missing:
        try:
            numbers.append(float(text))
        except ValueError:
            words.append(text)
    return numbers, words


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a file as its text and its types state them; what they are for is not found out yet."""

    names: tuple[str, ...]  # of all columns; those without a name and without a cell are no part of `columns`
    columns: dict[str, Any]  # Arrow arrays, text where the file is text
    numbers: dict[str, Any]  # those that hold numbers, as numbers
    number_forms: dict[str, NumberForm]
    words: dict[str, tuple[str, ...]]  # by column: words that stand for no value among its numbers
    odd: dict[str, str]  # reasons why columns that mostly hold numbers do not
    kind: str
    compression: str
    text: TextForm | None
    units: dict[str, str]
    line_of_row: NDArray[np.int64] | None
    notes: tuple[str, ...]
    log: WellLog | None = None

    @property
    def arrow(self) -> pa.Table:
        """All columns, as numbers where they hold numbers."""
        return pa.table({each: self.numbers.get(each, cells) for each, cells in self.columns.items()})


def read_table(source: Path | bytes, *, missing: Sequence[str] = (), decimal: str = "", name: str = "") -> Table:
    """Read a file as a table: kind, encoding, separator, header, and how its numbers are written.

    Args:
        source: the file, or its bytes.
        missing: words that mean no value, in every column.
        decimal: decimal sign, "." or ",".
        name: of the file, for messages; default: the path's.

    Raises:
        SettingsError: the file cannot be read, or its numbers can be read in two ways.
    """
    name = name or (source.name if isinstance(source, Path) else "the data")
    data, kind, compression = content_of(source, name)
    notes = ["gzip inside"] if compression else []
    text, lines, log = None, None, None
    units: dict[str, str] = {}
    if kind == "csv":
        split = columns_of(data, name)
        names, cells = split.names, [plain(each) for each in split.cells]
        text, units, lines, log = split.form, split.units, split.line_of_row, split.log
        kind = "csv" if log is None else "las"
        if log is None and text.separator != ",":
            notes.append(f"columns separated by {SEPARATOR_NAMES[text.separator]}")
        if text.encoding != "utf-8":
            notes.append(f"encoded in {text.encoding}")
        if units and log is None:
            notes.append("units in the line below the names")
        notes += split.notes
    else:
        table = typed_table(data, kind, name)
        names, cells = tuple(table.column_names), [plain(each) for each in table.columns]
    nameless = [at for at, column in enumerate(names) if not column and not _is_empty(cells[at])]
    if len(nameless) == 1 and _NAMELESS not in names:
        names = (*names[: nameless[0]], _NAMELESS, *names[nameless[0] + 1 :])
    kept = [(column, each) for column, each in zip(names, cells, strict=True) if column or not _is_empty(each)]
    repeated = [column for column, count in Counter(column for column, _ in kept).items() if count > 1]
    if repeated:
        raise SettingsError(
            f"{name}: expected columns of different names, found several {', '.join(map(repr, repeated))}"
        )
    if not kept or not len(kept[0][1]):
        raise SettingsError(f"{name}: expected rows of readings, found none")
    columns = dict(kept)
    written = {column: each for column, each in columns.items() if is_text(each.type)}
    found, odd, number_notes = number_columns(
        written, missing=missing, decimal=decimal, separator=text.separator if text else "", name=name
    )
    if decimal and not any(each.form.decimal == decimal for each in found.values()):
        raise SettingsError(f"{name}: no column is written with {decimal!r} as decimal sign")
    numbers = {
        column: found[column].values if column in found else each
        for column, each in columns.items()
        if column in found or is_number(each.type)
    }
    return Table(
        tuple(names), columns, numbers, {column: each.form for column, each in found.items()},
        {column: each.words for column, each in found.items() if each.words}, odd, kind, compression, text, units,
        lines, (*notes, *number_notes, *described(found)), log,
    )  # fmt: skip


def _is_empty(column: Any) -> bool:
    if is_text(column.type):
        return bool(pc.all(pc.equal(pc.fill_null(column, ""), "")).as_py())
    return bool(column.null_count == len(column))


def _groups(
    table: Mapping[str, Any], numbers: Mapping[str, Any], times_ms: NDArray[np.int64], group: str | None, name: str
) -> tuple[tuple[str, ...], NDArray[np.int64], str, str, str]:
    """Names of the groups, the group of each row, and the columns of groups, sensors and values of a long file."""
    columns = set(table)
    if group is not None and group not in columns:
        raise SettingsError(f"{name}: expected group column {group!r}, found columns {listed(list(table))}")
    sensor = value = ""
    if {"sensor", "value"} <= columns and "sensor" not in numbers:
        sensor, value = "sensor", "value"
        group = group or ("group" if "group" in columns else "")
        if value not in numbers:
            raise SettingsError(f"{name}: expected numbers in the column value, found {table[value].type}")
    elif group is None:
        timed = times_ms != NO_TIME
        part = {column: cells.filter(pa.array(timed)) for column, cells in table.items()}
        in_part = {column: numbers[column].filter(pa.array(timed)) for column in numbers if column in columns}
        telling = roles.telling_columns(part, in_part, times_ms[timed])
        measures = [
            column for column in in_part
            if column not in telling and not roles.unused_columns(in_part, [column], 1, odd={})
        ]  # fmt: skip
        _, group, sensor, value = roles.layout(telling, measures, part, times_ms[timed], in_part, name=name)
        if group and roles.looks_like_clock(table[group]):
            example = next(cell for cell in table[group].to_pylist() if cell)
            raise SettingsError(
                f"{name}: the rows of a time differ by {group!r}, which looks like a time of day and cannot be read "
                f"as one (found {example!r}); if it names the groups, say --group {group!r}"
            )
    if not group:
        return (), np.zeros(len(times_ms), np.int64), "", sensor, value
    names, group_of_row = _names(numbers.get(group, table[group]))
    return names, group_of_row, group, sensor, value


def _names(cells: Any) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Names in a column in the order of the file, and the place of each row's among them; -1 where it is empty."""
    cells = pc.cast(cells, pa.string())
    cells = pc.if_else(pc.equal(cells, ""), None, cells)
    encoded = cells.dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    return tuple(encoded.dictionary.to_pylist()), np.asarray(encoded.indices.fill_null(-1), np.int64)


def _unused(
    numbers: Mapping[str, Any], rest: Sequence[str], group: str, groups: int, odd: Mapping[str, str]
) -> dict[str, str]:
    others = [column for column in rest if column != group]
    return roles.unused_columns(numbers, others, groups, odd=odd)


def _other_times(table: Mapping[str, Any], numbers: Mapping[str, Any], used: Sequence[str]) -> list[str]:
    """Columns that hold times too, beside those that are used."""
    named = candidates(table, numbers, counted=False)
    return [column for each in named for column in each.columns if column not in used]


def _group_notes(form: FileForm, groups: int) -> list[str]:
    if form.layout == "long":
        of = f", group {form.group!r}" if form.group else ""
        return [f"a reading a row: sensor is {form.sensor!r}, value {form.value!r}{of}"]
    return [f"a row a time and group: group is {form.group!r}, {groups} groups"] if form.group else []


def _unused_notes(unused: Mapping[str, str]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for column, reason in unused.items():
        reasons.setdefault(reason, []).append(column or "one without a name")
    return [f"left out: {listed(columns)} ({reason})" for reason, columns in reasons.items()]


def _order_notes(form: FileForm) -> list[str]:
    notes = []
    what = "depth" if form.kind == "las" else "time"
    if form.untimed:
        notes.append(f"{form.untimed} rows without a {what} are left out")
    if form.duplicates:
        notes.append(f"{form.duplicates} rows repeat a {what} of their group")
    if form.out_of_order and not form.axis:
        notes.append(
            f"{form.out_of_order} rows are out of order, by up to {form.lateness_ms / 1000:g} s (lateness_s of a "
            "catalogue should be no less)"
        )
    return notes
