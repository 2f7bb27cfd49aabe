"""Guesses the time column, layout and groups of a data file; every guess is reported.

No value is changed. Where only a person can decide (a number that looks like "no value"), a warning names the setting
that would declare it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from glaim_stream.errors import listed
from glaim_stream.feed.kinds import is_number, is_text
from glaim_stream.feed.time_columns import joined
from training.autoconfig.no_value import numbers_of, sentinel_warnings
from training.autoconfig.time_column import as_read, time_column
from training.data.series import DataSpec
from training.errors import DataError

SENSOR_WORDS = ("sensor", "tag", "signal", "variable", "parameter", "metric", "channel", "measurement", "point")
VALUE_WORDS = ("value", "reading", "val", "measurement", "data")
SEPARATORS = (".", "/", ":", "|")


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
        spec = dataclasses.replace(spec, time=time_column(table, file))
    table = joined(table, spec.time)
    if "time" not in stated:
        messages.append(f"time is column {spec.time!r}, the first that reads as times")
        messages += as_read(table, spec, file)
    elif spec.time and spec.time not in table.column_names:
        raise DataError(f"{file.name}: expected time column {spec.time!r}, found columns {listed(table.column_names)}")
    if not {"layout", "group", "sensor", "value", "separator"} & set(stated):
        spec, words = _layout(table, file, spec)
        messages += words
    if spec.layout == "wide" and "sensors" not in stated:
        spec, words = _sensors(table, spec)
        messages += words
    if not spec.group and not spec.separator and "group_name" not in stated:
        spec = dataclasses.replace(spec, group_name=file.stem)
    return Guess(spec, tuple(messages), tuple(sentinel_warnings(table, spec)))


def _layout(table: pa.Table, file: Path, spec: DataSpec) -> tuple[DataSpec, list[str]]:
    """Guess the layout: wide, long, or one row for each time and group."""
    names = [name for name in _text_columns(table) if name != spec.time]
    numbers = [name for name in _number_columns(table) if name != spec.time]
    if not numbers:
        raise DataError(f"{file.name}: expected columns of numbers, found {listed(table.column_names)}")
    distinct = _distinct(table, [spec.time]) if spec.time else table.num_rows
    if distinct == table.num_rows or not names:  # a row a time
        separator = _separator(numbers)
        if separator:
            groups = list(dict.fromkeys(name.split(separator, 1)[0] for name in numbers))
            messages = (
                f"wide: a row a time; columns are <group>{separator}<sensor> of {len(groups)} groups, {listed(groups)}"
            )
            return dataclasses.replace(spec, separator=separator), [messages]
        return spec, [f"wide: a row a time, a column a sensor, one group named {file.stem!r}"]
    telling = [name for name in names if _distinct(table, [spec.time, name]) > distinct]
    if not telling:
        return spec, [f"wide: a row a time, a column a sensor, one group named {file.stem!r}"]
    if len(numbers) == 1 or (len(telling) > 1 and _named(numbers, VALUE_WORDS)):
        value = _named(numbers, VALUE_WORDS) or numbers[0]
        if len(telling) == 1:
            messages = (
                f"long: a reading a row; sensor is {telling[0]!r}, value {value!r}, one group named {file.stem!r}"
            )
            return dataclasses.replace(spec, layout="long", sensor=telling[0], value=value), [messages]
        sensor = _named(telling, SENSOR_WORDS)
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
    """Leave out columns that are no sensors: text, empty columns, and row counters."""
    if spec.separator:
        return spec, []
    taken = {name for name in (spec.time, spec.group) if name}  # a column may have no name
    text = [name for name in table.column_names if name not in taken and name not in _number_columns(table)]
    empty, counting, sensors = [], [], []
    for name in _number_columns(table):
        if name in taken:
            continue
        values = numbers_of(table.column(name))
        if not np.isfinite(values).any():
            empty.append(name)
        elif values.size > 2 and np.array_equal(np.diff(values), np.ones(values.size - 1)):
            counting.append(name)
        else:
            sensors.append(name)
    messages = [
        f"left out: {listed([name or 'one without a name' for name in names])} ({why})"
        for names, why in ((text, "no numbers"), (empty, "no value at all"), (counting, "counts the rows"))
        if names
    ]
    if not sensors or not (empty or counting):
        return spec, messages
    return dataclasses.replace(spec, sensors=tuple(sensors)), messages


def _separator(names: Sequence[str]) -> str:
    """Return the separator that splits every name into group and sensor, with equal sensors in all groups; else ""."""
    for separator in SEPARATORS:
        pairs = [tuple(name.split(separator, 1)) for name in names]
        if all(len(pair) == 2 and all(pair) for pair in pairs):
            groups, sensors = {pair[0] for pair in pairs}, {pair[-1] for pair in pairs}
            if len(groups) > 1 and len(set(pairs)) == len(groups) * len(sensors):
                return separator
    return ""


def _text_columns(table: pa.Table) -> list[str]:
    """Return the names of the text columns."""
    return [field.name for field in table.schema if is_text(field.type) or pa.types.is_dictionary(field.type)]


def _number_columns(table: pa.Table) -> list[str]:
    return [field.name for field in table.schema if is_number(field.type)]


def _distinct(table: pa.Table, names: Sequence[str]) -> int:
    return int(table.select(list(names)).group_by(list(names)).aggregate([]).num_rows)


def _named(names: Sequence[str], words: Sequence[str]) -> str | None:
    """Return the only column whose name contains one of the words; None if there is none or more than one."""
    found = [name for name in names if any(word in name.lower() for word in words)]
    return found[0] if len(found) == 1 else None
