"""Reads a file of readings without a stated form; an ambiguous form raises an error and is never guessed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError, listed
from glaim_stream.core.times import NO_TIME, text_of_ms, zone_of
from glaim_stream.files import roles
from glaim_stream.files.form import FileForm, Reading
from glaim_stream.files.judged import JudgedReadings, Told
from glaim_stream.files.layout import Layout, layout_of, names_in
from glaim_stream.files.numbers import floats_of
from glaim_stream.files.order import Order, order_of
from glaim_stream.files.quality import qualities
from glaim_stream.files.sentinels import note as sentinel_note
from glaim_stream.files.stamps import Stamps, finer
from glaim_stream.files.table import Table, read_table
from glaim_stream.files.times import Times, candidates, said, times_of
from glaim_stream.files.zones import utc, zone_column, zone_in

_MOST_REPEATED, _FEW_ROWS = 0.5, 10
_FINE = 0.1  # least share of rows that repeat a time only because times are milliseconds
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")  # a time of the day as the name of a column
_ELAPSED = re.compile(
    r"^(elapsed|time|t|seconds?|secs?|s|minutes?|hours?|zeit|elapsed[ _]time|time[ _]elapsed)([ _]*[\[(/_ ].*)?$", re.I
)
_UNIT = re.compile(r"[\[(/]\s*([A-Za-zµ]+)\s*[\])]?$")


def read(
    source: Path | bytes,
    form: FileForm | None = None,
    *,
    time: str | None = None,
    timezone: str | None = None,
    date_order: str = "",
    decimal: str = "",
    group: str | None = None,
    sensor: str = "",
    value: str = "",
    separator: str = "",
    sensors: Sequence[str] = (),
    missing: Sequence[str] = (),
    only_missing: bool = False,
    only_readings: bool = False,
    name: str = "",
) -> Reading:
    """Find the form of a file and read it.

    Args:
        source: path of the file, or its bytes.
        form: form of an earlier file, whose time, group, sensors, zone, date order and missing-value numbers are kept.
        time: time column, or several as `Date+Clock`.
        timezone: zone of stamps that carry none; default UTC.
        date_order: dmy or mdy.
        decimal: decimal sign, "." or ",".
        group: column that names the group of a row.
        sensor: column that names the sensor of a row that is one reading.
        value: column of the value of a row that is one reading.
        separator: separator of group and sensor in column names, if all names contain it.
        sensors: columns that are sensors, or names of sensors in `<group><separator><sensor>`; default: columns that
            hold measurements. If rows name their sensors, all are read.
        missing: numbers and words that mean a missing value, in every column; `COLUMN=VALUE` in one column, or of one
            sensor of a file in which a row is a reading. `COLUMN=`: no other number does in that column.
        only_missing: read no other number as missing.
        only_readings: reject a file that holds filled values.
        name: name of the file, for messages; default: from the path.

    Raises:
        SettingsError: the file cannot be read, can be read in two ways, or holds unwanted filled values.
    """
    name = name or (source.name if isinstance(source, Path) else "the data")
    if form is not None:
        time, timezone = time or form.time, timezone or form.timezone
        date_order, group = date_order or form.date_order, group or form.group or None
        sensors = sensors or (form.sensors if form.layout == "wide" else ())
    zone_of(timezone or "UTC")
    told = Told.of(missing)
    table = read_table(
        source,
        missing=told.words.get("", ()),
        missing_of=told.words,
        decimal=decimal,
        only_readings=only_readings,
        name=name,
    )
    if table.log is not None and table.log.missing is not None:
        told.numbers.setdefault("", []).append(table.log.missing)
    axis = _axis(table, time, date_order, name)
    timezone, name_notes = _zone(axis, timezone)
    rest = [column for column in table.columns if column not in (*axis.times.columns, axis.zone)]
    layout = layout_of(
        {each: table.columns[each] for each in rest}, table.numbers, axis.stamps.ms, group, sensor, value, name
    )
    times_ms, zone_notes = utc(axis.stamps, timezone, layout.group_of_row, name)
    measured, unused = _measured(table, axis, rest, layout, sensors, separator, name)
    marks = qualities(
        {each: table.numbers.get(each, table.columns[each]) for each in rest
         if each not in (layout.group, layout.sensor)},
        {each: floats_of(table.numbers[each]) for each in measured},
        {each: texts for each, texts in told.texts.items() if each not in measured or texts == [""]},
        sensor_of_row=names_in(table.columns[layout.sensor])[1] if layout.sensor else None,
        group_of_row=layout.group_of_row, name=name,
    )  # fmt: skip
    unused |= {each.column: "quality of readings" for each in marks}
    measured = tuple(each for each in measured if each not in unused)
    columns = {each: floats_of(table.numbers[each]) for each in measured}
    sensor_names, sensor_of_row = measured, None
    if layout.sensor:
        sensor_names, sensor_of_row = names_in(table.numbers.get(layout.sensor, table.columns[layout.sensor]))
    told.require(name, {*table.columns, *sensor_names})
    kept = {each: _kept(table, each) & (times_ms != NO_TIME) for each in measured}
    if sensor_of_row is not None:
        told.take_out(kept[layout.value], table.columns[layout.value], sensor_names, sensor_of_row)
        sensor_names, sensor_of_row, silent = _with_readings(
            sensor_names, sensor_of_row, columns[layout.value], kept[layout.value], axis.stamps.ms
        )
        unused |= silent
    text_notes = kept_notes(table, kept, sensor_names, sensor_of_row)
    readings = JudgedReadings(columns, sensor_names, sensor_of_row, layout.value)
    found, quality_notes = readings.judge(
        kept, marks, told, taken={} if form is None else form.taken, only_missing=only_missing
    )
    order = order_of(times_ms, layout.group_of_row, sensor_of_row)
    _require_one_table(table.heads, times_ms, layout.group_of_row, table.line_of_row, name)
    if order.duplicates > _FINE * len(times_ms) and len(axis.times.columns) == 1 and not axis.along:
        stamped = table.columns[axis.times.columns[0]]
        if finer(stamped):
            raise SettingsError(
                f"{name}, time {axis.times.label!r}: expected steps of a millisecond or more, found stamps that differ "
                f"by less, such as {stamped[0].as_py()} and {stamped[1].as_py()}; count the samples instead, as in a "
                "column `elapsed` of seconds"
            )
    if order.duplicates > _MOST_REPEATED * len(times_ms) and len(times_ms) >= _FEW_ROWS and not layout.sensor:
        raise SettingsError(
            f"{name}, time {axis.times.label!r}: {order.duplicates} of {len(times_ms)} rows repeat a time, and no "
            "column tells them apart: state --time with all columns of the time (Date+Clock), or --group"
        )
    made = replace(
        _form(table, axis, layout, order, measured, timezone), sensors=sensor_names, sentinels=found, unused=unused,
        name_separator="" if layout.group or layout.sensor else roles.name_separator(measured, separator),
    )  # fmt: skip
    notes = [
        *table.notes, *axis.said(order), *axis.notes, *name_notes, *zone_notes,
        *group_notes(made, layout), *unused_notes(unused), *empty_notes(table, unused), *quality_notes,
        *text_notes, *map(sentinel_note, found), *order_notes(made),
    ]  # fmt: skip
    return Reading(
        form=replace(made, notes=tuple(notes)),
        table=table.arrow,
        times_ms=times_ms,
        groups=layout.groups,
        group_of_row=layout.group_of_row,
        values=np.stack([columns[each] for each in measured]),
        kept=np.stack([kept[each] for each in measured]),
        doubted=np.stack([readings.doubted(each, found) for each in measured]),
        sensor_of_row=sensor_of_row,
        places=tuple(table.names.index(each) for each in measured),
        line_of_row=table.line_of_row,
    )


def _require_one_table(
    heads: Sequence[int], times_ms: NDArray[np.int64], group_of_row: NDArray[np.int64],
    line_of_row: NDArray[np.int64] | None, name: str,
) -> None:  # fmt: skip
    """Require that the rows below a repeated line of names are not the times above it again.

    Raises:
        SettingsError: they are, as in tables about two devices.
    """
    for head, end in zip(heads, [*heads[1:], len(times_ms)], strict=False):
        above, below = (
            {*zip(group_of_row[part].tolist(), times_ms[part].tolist(), strict=True)}
            for part in (slice(0, head), slice(head, end))
        )
        if len(below) > 1 and len(above & below) > len(below) / 2 and line_of_row is not None:
            raise SettingsError(
                f"{name}: the names of the columns are repeated above line {int(line_of_row[head]) + 1}, and the times "
                "below are those above: put each table into a file of its own"
            )


def _kept(table: Table, column: str) -> NDArray[np.bool_]:
    """Cells of a column that hold something else than a usable reading: a text that may be one, or an infinity."""
    values = pc.cast(table.numbers[column], pa.float64(), safe=False)
    infinite: NDArray[np.bool_] = np.isinf(values.to_numpy(zero_copy_only=False))
    return infinite | table.kept[column] if column in table.kept else infinite


def _with_readings(
    sensors: tuple[str, ...], sensor_of_row: NDArray[np.int64], values: NDArray[np.float64], kept: NDArray[np.bool_],
    times_ms: NDArray[np.int64],
) -> tuple[tuple[str, ...], NDArray[np.int64], dict[str, str]]:  # fmt: skip
    """The sensors of a long file with numbers or holes alone, and why others are none: words only, or no time."""
    number = np.bincount(sensor_of_row[(sensor_of_row >= 0) & np.isfinite(values)], minlength=len(sensors)) > 0
    words = np.bincount(sensor_of_row[(sensor_of_row >= 0) & kept], minlength=len(sensors)) > 0
    timed = np.bincount(sensor_of_row[(sensor_of_row >= 0) & (times_ms != NO_TIME)], minlength=len(sensors)) > 0
    stays = timed & (number | ~words)
    silent = {
        each: "texts, no numbers" if time else "no time in its rows"
        for each, stay, time in zip(sensors, stays.tolist(), timed.tolist(), strict=True) if not stay
    }  # fmt: skip
    place = np.append(np.where(stays, np.cumsum(stays) - 1, -1), -1)
    return tuple(each for each in sensors if each not in silent), place[sensor_of_row], silent


@dataclass(frozen=True, slots=True)
class _Axis:
    """The times of the rows, or the depths and elapsed times in their place."""

    times: Times
    stamps: Stamps
    notes: list[str]
    zone: str = ""  # column that states the zone of each row
    along: tuple[float, float] | None = None  # see FileForm.axis

    def said(self, order: Order) -> list[str]:
        """Notes on the columns of times and their format; none about depths."""
        if self.along:
            return []
        known = self.stamps.how in ("typed", "ymd")
        how = "" if known else f", read as {said(self.stamps)}, the first is {text_of_ms(order.first_ms)}"
        return [f"time is {self.times.label!r}{how}"]


def _axis(table: Table, time: str | None, date_order: str, name: str) -> _Axis:
    """Find the times of a table's rows."""
    along = table.log.names[0] if table.log is not None else elapsed_column(table.numbers)
    if table.log is None and along:
        beside = {along: table.columns[along]} if time == along else table.columns
        if candidates(beside, table.numbers):
            along = ""
    if along and time in (None, "", along):
        times, stamps, axis = along_axis(table.numbers, along, name)
        taken = f"{along!r} holds no dates and counts up: it is taken as the time since a start"
        return _Axis(times, stamps, [] if table.log is not None else [taken], along=axis)
    times, stamps, notes = times_of(table.columns, table.numbers, wanted=time or "", order=date_order, name=name)
    others = {column: cells for column, cells in table.columns.items() if column not in times.columns}
    zone, stamps, zone_notes = zone_column(others, stamps)
    return _Axis(times, stamps, [*notes, *zone_notes], zone)


def _zone(axis: _Axis, stated: str | None) -> tuple[str, list[str]]:
    """The zone of stamps that carry none: the stated one, or that in the name of their column, which a note says."""
    named = "" if stated or axis.stamps.zoned or axis.along else zone_in(axis.times.label)
    if not named:
        return stated or "UTC", []
    return named, [
        f"the name of the column {axis.times.label!r} states the zone of its times ({named}): --timezone states another"
    ]


def _measured(
    table: Table, axis: _Axis, rest: Sequence[str], layout: Layout, sensors: Sequence[str], separator: str, name: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the columns of readings, and the reasons why others are left out."""
    numbers = table.numbers
    unused: dict[str, str] = {}
    if not layout.sensor:
        others = [column for column in rest if column != layout.group]
        others_ms = [
            each for each in others if each in numbers and roles.tells_time(each, numbers[each], axis.stamps.ms)
        ]
        other_times = [*_other_times(table.columns, numbers, axis.times.columns), *others_ms]
        times = dict.fromkeys(other_times, "another time")
        unused = roles.unused_columns(numbers, others, len(layout.groups), odd={**table.odd, **times})
    if sensors and not layout.sensor:
        sensors = roles.columns_of(sensors, list(numbers), separator)
        absent = [each for each in sensors if each not in numbers]
        if absent:
            raise SettingsError(f"{name}: expected numbers in the columns {listed(absent)}, found none")
        unused = {each: unused.get(each, "not chosen") for each in rest if each not in (*sensors, layout.group)}
    taken = {*axis.times.columns, axis.zone, layout.group, layout.sensor, layout.value} - {""}
    measured = (layout.value,) if layout.sensor else tuple(each for each in rest if each not in {*unused, *taken})
    clocks = [each for each in measured if _CLOCK.fullmatch(each.strip())]
    if len(clocks) > max(3, len(measured) / 2) and not sensors:
        raise SettingsError(
            f"{name}: expected a column for each sensor, found columns named by times of the day, such as "
            f"{clocks[0]!r} and {clocks[1]!r}: give each reading a row with its date and time"
        )
    if not measured:
        raise SettingsError(
            f"{name}: expected columns of numbers beside the time, found {listed(list(table.columns))}; "
            + "; ".join(unused_notes(unused))
        )
    return measured, unused


def _form(table: Table, axis: _Axis, layout: Layout, order: Order, measured: Sequence[str], timezone: str) -> FileForm:
    """The form of the file without sensors, their groups, sentinels and unused columns."""
    written = {each: form for each, form in table.number_forms.items() if each in measured}
    units = {each: form.suffix.strip() for each, form in written.items() if form.suffix}
    units |= {each: unit for each, unit in table.units.items() if each in measured or axis.along}
    if axis.along:
        units = {axis.times.label: unit_in(axis.times.label), **units}
    return FileForm(
        kind=table.kind,
        compression=table.compression,
        columns=table.names,
        time=axis.times.label,
        sensors=(),
        text=table.text,
        timezone="UTC" if axis.stamps.zoned else timezone,
        date_order=axis.stamps.how if axis.stamps.how in ("dmy", "mdy") else "",
        first_ms=order.first_ms,
        last_ms=order.last_ms,
        step_ms=order.step_ms,
        layout="long" if layout.sensor else "wide",
        group=layout.group,
        sensor=layout.sensor,
        value=layout.value,
        numbers=written,
        words=table.words,
        units=units,
        duplicates=order.duplicates,
        out_of_order=order.out_of_order,
        lateness_ms=order.lateness_ms,
        untimed=order.untimed,
        axis=axis.along,
        zone=axis.zone,
    )


def _other_times(table: Mapping[str, Any], numbers: Mapping[str, Any], used: Sequence[str]) -> list[str]:
    """Columns that hold times but are not used."""
    named = candidates(table, numbers, counted=False)
    return [column for each in named for column in each.columns if column not in used]


def elapsed_column(numbers: Mapping[str, Any]) -> str:
    """The column that counts from the start of a measurement, found by its name and numbers; "" without one."""
    for column, cells in numbers.items():
        if _ELAPSED.match(column.strip()):
            values = floats_of(cells)
            if len(values) > 1 and bool((np.diff(values) > 0).all()):  # comparisons with NaN are false
                return column
    return ""


def unit_in(column: str) -> str:
    """The unit in the name of a column, such as `Time (s)`; "" without one."""
    found = _UNIT.search(column.strip())
    return found[1] if found else ""


def along_axis(numbers: Mapping[str, Any], column: str, name: str) -> tuple[Times, Stamps, tuple[float, float]]:
    """Depths or elapsed times as times: the least one is time 0, and d units take 1000 d milliseconds.

    Also returns the depth at time 0, and the depth per millisecond.

    Raises:
        SettingsError: the column holds fewer than two depths.
    """
    cells = numbers.get(column)
    depth = np.empty(0) if cells is None else floats_of(cells)
    known = np.isfinite(depth)
    steps = np.diff(np.unique(depth[known]))
    if not len(steps):
        raise SettingsError(f"{name}: expected depths in the column {column!r}, found no two different ones")
    step, least = float(np.median(steps)), float(depth[known].min())
    step_ms = max(1, round(1000 * step))
    ms = np.full(len(depth), NO_TIME, np.int64)
    ms[known] = np.rint((depth[known] - least) / step * step_ms)
    return Times(column, (column,), ()), Stamps(ms, True, "depth"), (least, step / step_ms)


def group_notes(form: FileForm, layout: Layout) -> list[str]:
    """Notes on how the rows are told apart, and on rows without the name of a group."""
    nameless = int((layout.group_of_row < 0).sum())
    notes = [f"{nameless:,} rows without a name in {form.group!r} are left out"] if nameless else []
    if form.layout == "long":
        of = f", group {form.group!r}" if form.group else ""
        return [f"a reading a row: sensor is {form.sensor!r}, value {form.value!r}{of}", *notes]
    told = f"a row a time and group: group is {form.group!r}, {len(layout.groups)} groups"
    return [told, *notes] if form.group else []


def unused_notes(unused: Mapping[str, str]) -> list[str]:
    """Notes on unused columns, by reason."""
    reasons: dict[str, list[str]] = {}
    for column, reason in unused.items():
        reasons.setdefault(reason, []).append(column or "one without a name")
    return [f"left out: {listed(columns)} ({reason})" for reason, columns in reasons.items()]


def kept_notes(
    table: Table, kept: Mapping[str, NDArray[np.bool_]], sensors: Sequence[str],
    sensor_of_row: NDArray[np.int64] | None,
) -> list[str]:  # fmt: skip
    """Notes on texts that may be readings, by sensor."""
    notes = []
    for column, cells in kept.items():
        parts = {column: cells} if sensor_of_row is None else {
            sensor: cells & (sensor_of_row == at) for at, sensor in enumerate(sensors)
        }  # fmt: skip
        for sensor, mine in parts.items():
            if not mine.any():
                continue
            texts = Counter(pc.cast(table.columns[column].filter(pa.array(mine)), pa.string()).to_pylist())
            said = listed([f"{text!r} ({count:,})" for text, count in texts.most_common()])
            notes.append(
                f"no numbers in {int(mine.sum()):,} cells of {sensor!r}: {said}: kept as they are, and not "
                f"used; if one means no reading, state --missing '{sensor}={texts.most_common()[0][0]}'"
            )
    return notes


def empty_notes(table: Table, unused: Mapping[str, str]) -> list[str]:
    """A note on the empty cells of columns of numbers that are left out."""
    counts = {}
    for column in unused:
        if column in table.numbers:
            empty = table.numbers[column].null_count - int(table.kept[column].sum() if column in table.kept else 0)
        elif column in table.odd:
            empty = pc.sum(pc.is_in(table.columns[column], pa.array(["", None], pa.string()))).as_py()
        else:
            continue
        if 0 < empty < len(table.columns[column]):
            counts[column] = empty
    said = [f"{column} {count:,}" for column, count in counts.items()]
    return [f"empty cells of columns that are left out, and stay empty: {listed(said)}"] if said else []


def order_notes(form: FileForm) -> list[str]:
    """Notes on rows without a time, repeated times, and rows out of order."""
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
