"""Guesses the time column, layout and groups of a data file; every guess is reported.

No value is changed. Where only a person can decide (a number that looks like "no value"), a warning names the setting
that would declare it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.errors import listed
from glaim_stream.files import candidates, is_number, note, roles, sentinels
from training.autoconfig.time_column import time_column
from training.data import DataSpec, columns_of, require_columns, times_of
from training.errors import DataError


@dataclasses.dataclass(frozen=True)
class Guess:
    """How to read the file; `messages` describe the guesses, `warnings` are for a person to check."""

    spec: DataSpec
    messages: tuple[str, ...]
    warnings: tuple[str, ...]


def guess(table: pa.Table, file: Path, given: DataSpec, stated: Collection[str]) -> Guess:
    """Guess the settings that were not given.

    Args:
        table: The file's content.
        file: Its path; the stem names a single group.
        given: The settings so far.
        stated: Names of the settings in `given` that a person gave; they are never changed.

    Raises:
        DataError: no column parses as time, the given one is absent, or the table's layout is ambiguous.
    """
    messages: list[str] = []
    spec = given
    if "time" not in stated:
        found, notes = time_column(table, file, order=spec.date_order)
        spec = dataclasses.replace(spec, time=found)
        messages += [f"time is column {found!r}", *notes]
    else:
        absent = [each for each in _time_parts(table, spec) if each not in table.column_names]
        if absent:
            raise DataError(
                f"{file.name}: expected time column {spec.time!r}, found columns {listed(table.column_names)}"
            )
    if not {"layout", "group", "sensor", "value", "separator"} & set(stated):
        spec, words = _layout(table, file, spec)
        messages += words
    if spec.layout == "wide" and "sensors" not in stated:
        spec, words = _sensors(table, spec)
        messages += words
    if not spec.group and not spec.separator and "group_name" not in stated:
        spec = dataclasses.replace(spec, group_name=file.stem)
    if spec.layout == "long":
        require_columns(table, [spec.sensor, spec.value], file, "long-format")
    elif not spec.separator:
        require_columns(table, spec.sensors, file, "sensor")
    spec, words, warnings = _sentinels(table, spec, stated)
    return Guess(spec, (*messages, *words), tuple(warnings))


def _time_parts(table: pa.Table, spec: DataSpec) -> list[str]:
    """The columns that make up the time."""
    if not spec.time:
        return []
    return [spec.time] if spec.time in table.column_names else spec.time.split("+")


def _sentinels(table: pa.Table, spec: DataSpec, stated: Collection[str]) -> tuple[DataSpec, list[str], list[str]]:
    """Declare the numbers that surely stand for no value; describe them, and those that may."""
    columns: dict[str, NDArray[np.float64]] = {}
    if spec.layout == "long":
        values = numbers_of(table.column(spec.value))
        names = np.array(table.column(spec.sensor).cast(pa.string()).to_pylist(), object)
        columns = {str(name): values[names == name] for name in dict.fromkeys(names.tolist()) if name}
    else:
        chosen = spec.sensors or [each for each in _number_columns(table) if each not in _time_parts(table, spec)]
        if spec.separator:
            for name in [each for each in _number_columns(table) if spec.separator in each]:
                sensor = name.split(spec.separator, 1)[1]
                values = numbers_of(table.column(name))
                columns[sensor] = np.concatenate([columns.get(sensor, values[:0]), values])
        else:
            columns = {name: numbers_of(table.column(name)) for name in chosen if name != spec.group}
    declared = {name: {*spec.sentinels, *spec.sensor_sentinels.get(name, ())} for name in columns}
    found = [each for each in sentinels(columns) if each.value not in declared[each.column]]
    sure = [each for each in found if each.taken and not {"sentinels", "sensor_sentinels"} & {*stated}]
    if sure:
        taken = {name: tuple(numbers) for name, numbers in spec.sensor_sentinels.items()}
        for each in sure:
            taken[each.column] = (*taken.get(each.column, ()), each.value)
        spec = dataclasses.replace(spec, sensor_sentinels=taken)
    return (
        spec,
        [note(each) for each in sure],
        [note(dataclasses.replace(each, taken=False)) for each in found if each not in sure],
    )


def numbers_of(column: Any) -> NDArray[np.float64]:
    """Return a column as numbers; NaN where it is empty."""
    return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)


def _layout(table: pa.Table, file: Path, spec: DataSpec) -> tuple[DataSpec, list[str]]:
    """Guess the layout: wide, long, or one row for each time and group."""
    parts = _time_parts(table, spec)
    numbers = [name for name in _number_columns(table) if name not in parts]
    times = times_of(table, spec, file)
    columns, number_columns = columns_of(table)
    names = [name for name in roles.naming_columns(columns, number_columns) if name not in parts]
    numbers = [name for name in numbers if name not in names]
    if not numbers:
        raise DataError(f"{file.name}: expected columns of numbers, found {listed(table.column_names)}")
    distinct = len(np.unique(times))
    apart = [name for name in names if roles.have_clocks(name, columns[name], number_columns, times)]
    if (distinct == table.num_rows and not apart) or not names:  # a row a time
        separator = roles.name_separator(numbers)
        if separator:
            groups = list(dict.fromkeys(name.split(separator, 1)[0] for name in numbers))
            messages = (
                f"wide: a row a time; columns are <group>{separator}<sensor> of {len(groups)} groups, {listed(groups)}"
            )
            return dataclasses.replace(spec, separator=separator), [messages]
        return spec, [f"wide: a row a time, a column a sensor, one group named {file.stem!r}"]
    telling = apart or [name for name in names if _distinct(table, times, name) > distinct]
    if not telling:
        return spec, [f"wide: a row a time, a column a sensor, one group named {file.stem!r}"]
    if len(numbers) == 1 or (len(telling) > 1 and _named(numbers, roles.VALUE_WORDS)):
        value = _named(numbers, roles.VALUE_WORDS) or numbers[0]
        if len(telling) == 1:
            messages = (
                f"long: a reading a row; sensor is {telling[0]!r}, value {value!r}, one group named {file.stem!r}"
            )
            return dataclasses.replace(spec, layout="long", sensor=telling[0], value=value), [messages]
        sensor = _named(telling, roles.SENSOR_WORDS)
        others = [name for name in telling if name != sensor]
        if sensor is None or len(others) != 1:
            raise DataError(
                f"{file.name}: columns {', '.join(telling)} distinguish the rows of a time, and it is unclear which "
                f"is the sensor: give --layout long --sensor COLUMN --value {value} and perhaps --group COLUMN"
            )
        messages = f"long: a reading a row; group is {others[0]!r}, sensor {sensor!r}, value {value!r}"
        return dataclasses.replace(spec, layout="long", group=others[0], sensor=sensor, value=value), [messages]
    if len(telling) > 1:
        raise DataError(
            f"{file.name}: columns {', '.join(telling)} distinguish the rows of a time, and it is unclear which is the "
            f"group: give --group COLUMN"
        )
    messages = f"wide: a row a time and group; group is {telling[0]!r}, a column a sensor"
    return dataclasses.replace(spec, group=telling[0]), [messages]


def _sensors(table: pa.Table, spec: DataSpec) -> tuple[DataSpec, list[str]]:
    """Leave out columns that are no sensors: text, empty columns, row counters, flags, codes and places."""
    if spec.separator:
        return spec, []
    taken = {*_time_parts(table, spec), spec.group} if spec.group else {*_time_parts(table, spec)}
    columns, numbers = columns_of(table)
    others = [name for name in columns if name not in taken]
    groups = len(pc.unique(columns[spec.group])) if spec.group else 1
    others_of_time = [each for found in candidates(columns, numbers, counted=False) for each in found.columns]
    odd = {name: "another time" for name in others_of_time if name not in taken}
    unused = roles.unused_columns(numbers, others, groups, odd=odd)
    reasons: dict[str, list[str]] = {}
    for name, reason in unused.items():
        reasons.setdefault(reason, []).append(name or "one without a name")
    messages = [f"left out: {listed(names)} ({reason})" for reason, names in reasons.items()]
    sensors = tuple(name for name in others if name not in unused)
    numeric_times = [name for name in _time_parts(table, spec) if name in numbers and name != spec.time]
    if not sensors or (not numeric_times and all(reason == "no numbers" for reason in unused.values())):
        return spec, messages
    return dataclasses.replace(spec, sensors=sensors), messages


def _number_columns(table: pa.Table) -> list[str]:
    return [field.name for field in table.schema if is_number(field.type)]


def _distinct(table: pa.Table, times_ms: NDArray[np.int64], name: str) -> int:
    """Number of different pairs of time and name."""
    pairs = pa.table({"time": pa.array(times_ms), "name": table.column(name)})
    return int(pairs.group_by(["time", "name"]).aggregate([]).num_rows)


def _named(names: Sequence[str], words: Sequence[str]) -> str | None:
    """Return the only column whose name contains one of the words; None if there is none or more than one."""
    found = [name for name in names if any(word in name.lower() for word in words)]
    return found[0] if len(found) == 1 else None
