"""Finds the group of each row of a file, and whether a row holds one reading or one per sensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError, listed
from glaim_stream.core.times import NO_TIME
from glaim_stream.files import roles
from glaim_stream.files.quality import speaks
from glaim_stream.files.stamps import Stamps
from glaim_stream.files.times import candidates, times_of


@dataclass(frozen=True, slots=True)
class Layout:
    """The groups of a file's rows; `sensor` and `value` name the columns of a long file's readings."""

    groups: tuple[str, ...]  # names; empty where the file names no group
    group_of_row: NDArray[np.int64]  # [R]; -1 where the row names none
    group: str  # column; "" without one
    sensor: str
    value: str


def layout_of(
    table: Mapping[str, Any], numbers: Mapping[str, Any], times_ms: NDArray[np.int64], group: str | None, sensor: str,
    value: str, name: str,
) -> Layout:  # fmt: skip
    """Find the groups of a file's rows, and whether each row holds one reading.

    Args:
        table: Arrow columns by name, without those of the time.
        numbers: columns that hold numbers, as numbers.
        times_ms: int64 [R], NO_TIME where a row has none.
        group: column that names the group of a row; None: detected.
        sensor: column that names the sensor of a row that is one reading; "": detected.
        value: column of the value of a row that is one reading; "": detected.
        name: name of the file, for messages.

    Raises:
        SettingsError: the rows of a time cannot be told apart, or a column contradicts its stated role.
    """
    columns = set(table)
    if group is not None and group not in columns:
        raise SettingsError(f"{name}: expected group column {group!r}, found columns {listed(list(table))}")
    stated = bool(sensor or value)
    sensor, value = sensor or "sensor", value or "value"
    absent = [each for each in (sensor, value) if each not in columns]
    if stated and absent:
        raise SettingsError(
            f"{name}: expected the columns {sensor!r} and {value!r}, found columns {listed(list(table))}"
        )
    if stated or (not absent and sensor not in numbers):
        group = group or ("group" if "group" in columns else None)
        if value not in numbers:
            raise SettingsError(f"{name}: expected numbers in the column {value}, found {table[value].type}")
    else:
        sensor = value = ""
    if group is None or not sensor:
        timed = times_ms != NO_TIME
        moments = times_ms[timed]
        if group is not None:  # its sensors distinguish the rows of one time and group
            codes = names_in(numbers.get(group, table[group]))[1][timed]
            moments = np.unique(moments, return_inverse=True)[1] * (codes.max(initial=0) + 2) + codes + 1
            if 2 * len(np.unique(moments)) > len(moments):
                return Layout(*names_in(numbers.get(group, table[group])), group, "", "")
        part = {
            column: cells.filter(pa.array(timed)) for column, cells in table.items()
            if column in (sensor, value) or (
                column != group
                and not speaks(column, numbers.get(column, cells))
                and not (column in numbers and roles.tells_time(column, numbers[column], times_ms))
            )
        }  # fmt: skip
        in_part = {column: numbers[column].filter(pa.array(timed)) for column in numbers if column in part}
        if sensor:
            group = roles.group_beside(sensor, value, part, in_part, moments, name=name)
        else:
            telling = roles.telling_columns(part, in_part, moments)
            measures = [
                column for column in in_part
                if column not in telling and not roles.unused_columns(in_part, [column], 1, odd={})
            ]  # fmt: skip
            _, found, sensor, value = roles.layout(telling, measures, part, moments, in_part, name=name)
            group = group or found
        if group and roles.looks_like_clock(table[group]):
            example = next(cell for cell in table[group].to_pylist() if cell)
            raise SettingsError(
                f"{name}: the rows of a time differ by {group!r}, which looks like a time of day and cannot be read "
                f"as one (found {example!r}); if it names the groups, say --group {group!r}"
            )
    if not group:
        return Layout((), np.zeros(len(times_ms), np.int64), "", sensor, value)
    return Layout(*names_in(numbers.get(group, table[group])), group, sensor, value)


def names_in(cells: Any) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The names in a column in the order of the file, and the index of each row's name; -1 where empty."""
    cells = pc.cast(cells, pa.string())
    cells = pc.if_else(pc.equal(cells, ""), None, cells)
    encoded = cells.dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    return tuple(encoded.dictionary.to_pylist()), np.asarray(encoded.indices.fill_null(-1), np.int64)


def found_times(table: Mapping[str, Any], wanted: str, name: str) -> tuple[Stamps, tuple[str, ...]] | None:
    """Find the times of a table in memory, and the columns that hold them; None without any.

    Args:
        table: Arrow columns by name. Numbers are times only where stated.
        wanted: stated column; "": detected.
        name: name of the table, for messages.

    Raises:
        SettingsError: the stated column holds no times, or several ones hold different times.
    """
    if not wanted and not candidates(table, {}, counted=False):
        return None
    times, stamp, _ = times_of(table, {}, wanted=wanted, order="", name=name)
    return stamp, times.columns
