"""Reads files into series: wide or long tables of one or many groups, on a regular grid, with real gaps as NaN.

    wide    one row for each time, one column for each sensor; with a separator, `<group>.<sensor>` columns of groups
    long    one row for each reading: time, sensor, value, and a group where there are several

The result is a `Series`: float32 [G, C, R], G groups with the same C sensors over R rows of one grid. A cell that was
empty, or holds a declared "no value", is NaN and enters no loss, score or statistic.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.step_means import mean_of_each
from glaim_stream.core.stray_times import stray_times
from glaim_stream.core.times import EARLIEST_MS, LATEST_MS, NO_TIME
from glaim_stream.files import is_number, plain, stamps, utc, zone_column
from glaim_stream.files import read_table as read_file
from glaim_stream.files import times_of as times_in
from glaim_stream.health import doubtful_cells
from training.data.series import DataSpec, Floats, Series
from training.errors import DataError


def load(spec: DataSpec, path: Path) -> Series:
    """Read a file into series.

    Raises:
        DataError: the file cannot be read, a named column is absent or not numeric, or nothing was ever observed.
    """
    table = read_table(path, spec.no_value, spec.decimal)
    if table.num_rows == 0:
        raise DataError(f"{path.name} has no rows")
    times_ms = times_of(table, spec, path)
    timed = times_ms != NO_TIME
    if not timed.all():
        table, times_ms = table.filter(pa.array(timed)), times_ms[timed]
    stray = stray_times(times_ms) if spec.time and spec.grid else np.zeros(len(times_ms), np.bool_)
    if stray.any():
        table, times_ms = table.filter(pa.array(~stray)), times_ms[~stray]
    if spec.layout == "wide" and spec.group:
        groups, sensors, times_ms, values, step_s = _wide_by_group(table, times_ms, spec, path)
    elif spec.layout == "wide":
        groups, sensors, columns = _wide_columns(table, spec, path)
        matrix = np.stack([[_numbers(table, columns[g, s], path) for s in sensors] for g in groups])
        matrix = _blank_sentinels(matrix, sensors, spec)
        if spec.grid:
            times_ms, values, step_s = _grid_wide(times_ms, matrix, sensors, spec, path)
        else:
            values, step_s = matrix, _interval(times_ms, spec.step_s, path) / 1000
    else:
        groups, sensors, times_ms, values, step_s = _long(table, times_ms, spec, path)
    observed = np.isfinite(values)
    doubted = 0
    if spec.plausibility:
        apart = doubtful_cells(np.where(observed, values, 0.0), observed, np.ones(len(sensors), np.bool_))
        doubted, observed = int(apart.sum()), observed & ~apart
    values = np.where(observed, values, np.float32(np.nan))
    if not observed.any():
        raise DataError(f"expected readings in {path.name}, found no observed value in any of {len(sensors)} sensors")
    empty = [name for index, name in enumerate(sensors) if not observed[:, index].any()]
    if empty:
        raise DataError(f"{path.name}: sensors without a single observed value: {', '.join(empty)}; leave them out")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    units = tuple(spec.units.get(name, "") for name in sensors)
    return Series(
        tuple(groups), tuple(sensors), units, times_ms, values, step_s, path.name, digest, int(stray.sum()), doubted
    )


def read_table(path: Path, no_value: Sequence[str] = (), decimal: str = "") -> pa.Table:
    """Read a file of any kind that `glaim_stream.files.read` reads; columns of numbers as numbers.

    Raises:
        DataError: it is absent, of another kind, cannot be read, or holds filled values.
    """
    try:
        return read_file(path, missing=no_value, decimal=decimal, only_readings=True).arrow
    except SettingsError as error:
        raise DataError(str(error)) from error


def require_columns(table: pa.Table, names: Sequence[str], path: Path, what: str) -> None:
    """Raise DataError, which names what is there, unless the table has these columns."""
    absent = [name for name in names if name not in table.column_names]
    if absent:
        shown = ", ".join(table.column_names[:20]) + (", ..." if table.num_columns > 20 else "")
        raise DataError(f"{path.name}: expected {what} column {', '.join(map(repr, absent))}, found columns {shown}")


def times_of(table: pa.Table, spec: DataSpec, path: Path) -> NDArray[np.int64]:
    """Return the epoch milliseconds of each row, NO_TIME where it has none; without a time column the rows are steps.

    Raises:
        DataError: the column is absent, or not all of it can be read.
    """
    if not spec.time:
        if spec.layout == "long" or spec.step_s <= 0:
            raise DataError(f"{path.name}: rows without a time column need a wide layout and step_s")
        return np.arange(table.num_rows, dtype=np.int64) * round(spec.step_s * 1000)
    columns, numbers = columns_of(table)
    clock = numbers.get(spec.time)
    if clock is not None and pa.types.is_integer(clock.type) and not stamps(clock):  # a clock that starts at 0
        times_ms = np.asarray(pc.fill_null(clock, NO_TIME), np.int64)
        known = times_ms[times_ms != NO_TIME]
        if known.size and not EARLIEST_MS <= known.min() <= known.max() <= LATEST_MS:
            raise DataError(f"{path.name}, column {spec.time!r}: expected epoch milliseconds of 1900 to 2200")
        return times_ms
    try:
        times, stamp, _ = times_in(columns, numbers, wanted=spec.time, order=spec.date_order, name=path.name)
        _, stamp = zone_column({each: columns[each] for each in columns if each not in times.columns}, stamp)
        times_ms, _ = utc(stamp, spec.timezone, np.zeros(len(stamp.ms), np.int64), path.name)
        return times_ms
    except SettingsError as error:
        raise DataError(str(error)) from error


def columns_of(table: pa.Table) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns of a table, each in one piece, and those of them that hold numbers."""
    columns = {name: plain(table.column(name)) for name in table.column_names}
    return columns, {name: column for name, column in columns.items() if is_number(column.type)}


def _numbers(table: pa.Table, name: str, path: Path) -> Floats:
    column = table.column(name)
    if not is_number(column.type):
        raise DataError(f"{path.name}: expected numbers in column {name!r}, found {column.type}")
    return np.asarray(column.cast(pa.float64()).to_numpy(), np.float32)


def _wide_columns(
    table: pa.Table, spec: DataSpec, path: Path
) -> tuple[list[str], list[str], dict[tuple[str, str], str]]:
    """Groups, sensors and the column of each pair, in the order of the file unless the spec gives one."""
    numeric = [field.name for field in table.schema if field.name != spec.time and is_number(field.type)]
    if not spec.separator:
        sensors = list(spec.sensors) or numeric
        require_columns(table, sensors, path, "sensor")
        return [spec.group_name], sensors, {(spec.group_name, name): name for name in sensors}
    pairs = {tuple(name.split(spec.separator, 1)): name for name in numeric if spec.separator in name}
    groups = list(spec.groups) or list(dict.fromkeys(group for group, _ in pairs))
    sensors = list(spec.sensors) or list(dict.fromkeys(sensor for _, sensor in pairs))
    if not groups or not sensors:
        raise DataError(
            f"{path.name}: expected columns like <group>{spec.separator}<sensor>, found {table.column_names[:10]}"
        )
    require_columns(table, [f"{g}{spec.separator}{s}" for g in groups for s in sensors], path, "sensor")
    return groups, sensors, {(g, s): f"{g}{spec.separator}{s}" for g in groups for s in sensors}


def _require_declared(sensors: Sequence[str], spec: DataSpec) -> None:
    for what, declared in (("sentinels are", spec.sensor_sentinels), ("directions are", spec.directions)):
        unknown = sorted(set(declared) - set(sensors))
        if unknown:
            raise DataError(f"{what} declared for sensors that are not in the data: {', '.join(unknown)}")


def _is_sentinel(values: Floats, sensor: str, spec: DataSpec) -> NDArray[np.bool_]:
    declared = [*spec.sentinels, *spec.sensor_sentinels.get(sensor, ())]
    return np.isin(values, np.array(declared, np.float32))


def _blank_sentinels(matrix: Floats, sensors: Sequence[str], spec: DataSpec) -> Floats:
    """Declared "no value" numbers become NaN; matrix is [G, C, rows]."""
    _require_declared(sensors, spec)
    for row, name in enumerate(sensors):
        matrix[:, row][_is_sentinel(matrix[:, row], name, spec)] = np.nan
    return matrix


def _interval(times_ms: NDArray[np.int64], step_s: float, path: Path) -> int:
    if step_s > 0:
        return max(1, round(step_s * 1000))
    distances = np.diff(np.unique(times_ms))
    if distances.size == 0:
        raise DataError(f"{path.name}: expected two different times or more, found one; or give step_s")
    return int(np.median(distances))


def _grid(times_ms: NDArray[np.int64], step_s: float, path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the row of each time on the regular grid, the grid's times, and its interval in ms.

    Steps begin where a worker's do, at multiples of the interval since 1970: what falls into one step there does here.
    """
    step_ms = _interval(times_ms, step_s, path)
    start = int(times_ms.min()) // step_ms * step_ms
    rows = (times_ms - start) // step_ms
    size = int(rows.max()) + 1
    if size > max(50_000_000, 100 * times_ms.size):
        raise DataError(
            f"{path.name}: a grid of {step_ms / 1000} s would need {size} rows for {times_ms.size} times; give step_s"
        )
    return rows, start + step_ms * np.arange(size, dtype=np.int64), step_ms


def _settled(
    place: NDArray[np.int64], numbers: Floats, size: int, bucket: str, directions: NDArray[np.bool_] | None
) -> Floats:
    """Return the value of each of `size` cells, NaN where there is none.

    Args:
        place: [n] the cell of each reading, in order of time.
        numbers: [n] what they say, finite.
        size: of the result.
        bucket: See DataSpec.
        directions: bool [n], readings that are directions in degrees; None: there are none.
    """
    values = np.full(size, np.nan, np.float32)
    if bucket == "mean":
        values[place] = mean_of_each(numbers.astype(np.float64), place, size, directions)
    else:
        values[place] = numbers  # of several assignments numpy leaves the last one behind
    return values


def _turning(sensor: str, readings: NDArray[np.int64], spec: DataSpec) -> NDArray[np.bool_] | None:
    """Which of a sensor's readings are directions, as `_settled` asks: all of them, or none."""
    return np.ones(len(readings), np.bool_) if sensor in spec.directions else None


def _grid_wide(
    times_ms: NDArray[np.int64], matrix: Floats, sensors: Sequence[str], spec: DataSpec, path: Path
) -> tuple[NDArray[np.int64], Floats, float]:
    """Rows onto the grid; a row's gaps take no other row's values away."""
    rows, grid_ms, step_ms = _grid(times_ms, spec.step_s, path)
    if rows.size == grid_ms.size and np.array_equal(rows, np.arange(rows.size)):
        return times_ms, matrix, step_ms / 1000
    order = np.argsort(times_ms, kind="stable")
    filled = []
    for row, name in zip(matrix.reshape(-1, rows.size), itertools.cycle(sensors)):  # the names again for each group
        seen = order[np.isfinite(row[order])]
        filled.append(_settled(rows[seen], row[seen], grid_ms.size, spec.bucket, _turning(name, seen, spec)))
    return grid_ms, np.stack(filled).reshape(*matrix.shape[:2], grid_ms.size), step_ms / 1000


def _named(table: pa.Table, column: str, wanted: Sequence[str], path: Path) -> tuple[list[str], NDArray[np.int64]]:
    """The names in a column, or the wanted ones of them in their order; and each row's place among them, else -1."""
    require_columns(table, [column], path, "group or sensor")
    encoded = table.column(column).cast(pa.string()).combine_chunks().dictionary_encode()
    found = encoded.dictionary.to_pylist()
    absent = sorted(set(wanted) - set(found))
    if absent:
        raise DataError(
            f"{path.name}: expected {', '.join(absent)} in column {column!r}, found {', '.join(found[:20])}"
        )
    names = list(wanted) or sorted(name for name in found if name)
    place = np.array([names.index(name) if name in names else -1 for name in found] + [-1])  # the last: no name
    return names, place[np.asarray(encoded.indices.fill_null(len(found)))]


def _wide_by_group(
    table: pa.Table, times_ms: NDArray[np.int64], spec: DataSpec, path: Path
) -> tuple[list[str], list[str], NDArray[np.int64], Floats, float]:
    """A row a time and group, a column a sensor."""
    groups, group_row = _named(table, spec.group, spec.groups, path)
    numeric = [field.name for field in table.schema if is_number(field.type)]
    sensors = list(spec.sensors) or [name for name in numeric if name not in (spec.time, spec.group)]
    require_columns(table, sensors, path, "sensor")
    rows, grid_ms, step_ms = _grid(times_ms, spec.step_s, path)
    order = np.argsort(times_ms, kind="stable")
    order = order[group_row[order] >= 0]
    cells = group_row * grid_ms.size + rows
    matrix = _blank_sentinels(np.stack([[_numbers(table, name, path) for name in sensors]]), sensors, spec)[0]
    filled = []
    for name, numbers in zip(sensors, matrix, strict=True):
        seen = order[np.isfinite(numbers[order])]
        turning = _turning(name, seen, spec)
        settled = _settled(cells[seen], numbers[seen], len(groups) * grid_ms.size, spec.bucket, turning)
        filled.append(settled.reshape(len(groups), grid_ms.size))
    return groups, sensors, grid_ms, np.stack(filled, axis=1), step_ms / 1000


def _long(
    table: pa.Table, times_ms: NDArray[np.int64], spec: DataSpec, path: Path
) -> tuple[list[str], list[str], NDArray[np.int64], Floats, float]:
    require_columns(table, [spec.sensor, spec.value], path, "long-format")
    numbers = _numbers(table, spec.value, path)
    sensors, sensor_row = _named(table, spec.sensor, spec.sensors, path)
    groups, group_row = [spec.group_name], np.zeros(numbers.size, np.int64)
    if spec.group:
        groups, group_row = _named(table, spec.group, spec.groups, path)
    # Sentinels go before the grid: one that shares a step with a reading must not take its place.
    _require_declared(sensors, spec)
    for row, name in enumerate(sensors):
        numbers = np.where(_is_sentinel(numbers, name, spec) & (sensor_row == row), np.float32(np.nan), numbers)
    kept = (sensor_row >= 0) & (group_row >= 0) & np.isfinite(numbers)
    if not kept.any():
        raise DataError(f"expected readings in {path.name}, found no observed value of the chosen groups and sensors")
    rows, grid_ms, step_ms = _grid(times_ms[kept], spec.step_s, path)
    shape = (len(groups), len(sensors), grid_ms.size)
    cells = np.ravel_multi_index((group_row[kept], sensor_row[kept], rows), shape)
    order = np.argsort(times_ms[kept], kind="stable")
    turning = np.isin(sensors, spec.directions)[sensor_row[kept][order]] if spec.directions else None
    values = _settled(cells[order], numbers[kept][order], math.prod(shape), spec.bucket, turning).reshape(shape)
    return groups, sensors, grid_ms, values, step_ms / 1000
