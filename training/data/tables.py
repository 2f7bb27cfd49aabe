"""Reads files into the series of a run: with the reader, the layout and the grid of `glaim_stream.files`.

The result is a `Series`: float32 [G, C, R], G groups with the same C sensors over R rows of one grid. A cell that was
empty, or holds a "no value", is NaN and enters no loss, score or statistic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from glaim_stream import files
from glaim_stream.core.errors import SettingsError, listed
from glaim_stream.files import Reading, ReadingColumn, is_number
from glaim_stream.health import doubtful_cells
from training.data.series import DataSpec, Floats, GroupSeries
from training.errors import DataError


def read(spec: DataSpec, path: Path) -> Reading:
    """Read a file, and find out the settings of its form that are left open.

    Raises:
        DataError: the file cannot be read, can be read in two ways, has no dates, or holds filled values.
    """
    try:
        reading = files.read(
            path, time=spec.time or None, timezone=spec.timezone, date_order=spec.date_order, decimal=spec.decimal,
            group=spec.group or None, sensor=spec.sensor, value=spec.value, separator=spec.separator,
            sensors=spec.sensors, missing=(*map(repr, spec.sentinels), *spec.no_value),
            only_missing=spec.only_sentinels, only_readings=True,
        )  # fmt: skip
    except SettingsError as error:
        raise DataError(str(error)) from error
    if reading.form.axis:
        raise DataError(f"{path.name}: it has depths or elapsed times and no dates, so no stream continues it")
    return reading


def load(spec: DataSpec, path: Path) -> GroupSeries:
    """Read a file into series.

    Raises:
        DataError: the file cannot be read, a named column is absent or not numeric, or nothing was ever observed.
    """
    reading = read(spec, path)
    try:
        series = _gridded(reading, spec, path) if spec.grid else _rows(reading, spec, path)
    except SettingsError as error:
        raise DataError(f"{path.name}: {error}") from error
    observed, doubted = np.isfinite(series.values), 0
    if spec.plausibility:
        apart = doubtful_cells(np.where(observed, series.values, 0.0), observed, np.ones(len(series.sensors), np.bool_))
        doubted, observed = int(apart.sum()), observed & ~apart
    empty = [name for index, name in enumerate(series.sensors) if not observed[:, index].any()]
    if len(empty) == len(series.sensors):
        raise DataError(f"expected readings in {path.name}, found no observed value in any of {len(empty)} sensors")
    if empty:
        raise DataError(f"{path.name}: sensors without a single observed value: {', '.join(empty)}; leave them out")
    return replace(series, values=np.where(observed, series.values, np.float32(np.nan)), doubted=doubted)


def _gridded(reading: Reading, spec: DataSpec, path: Path) -> GroupSeries:
    """The readings on one grid for all groups; a stated step cuts the grid as a worker cuts it."""
    cells, stray = files.without_stray_rows(files.cells_of(reading, spec.group_name))
    long = reading.sensor_of_row is not None
    groups = _chosen(cells.groups, spec.groups, "group", path, named=bool(reading.groups))
    sensors = _chosen(cells.sensors, spec.sensors, "sensor", path, named=long)
    for what, declared in (("sentinels are", spec.sensor_sentinels), ("directions are", spec.directions)):
        unknown = sorted(set(declared) - set(sensors))
        if unknown:
            raise DataError(f"{what} declared for sensors that are not in the data: {', '.join(unknown)}")
    cells = replace(cells, columns=tuple(_without_sentinels(each, cells.sensors, spec) for each in cells.columns))
    found = files.series_of(
        cells, step_ms=round(spec.step_s * 1000) or None, as_streamed=spec.step_s > 0, bucket=spec.bucket,
        directions=spec.directions,
    )  # fmt: skip
    place = [cells.sensors.index(name) for name in sensors]
    parts = [
        (row, found.grids[code], found.values[code][place])
        for row, code in enumerate(map(cells.groups.index, groups))
        if (found.grids[code].rows >= 0).any()
    ]
    start = min((grid.start_ms for _, grid, _ in parts), default=0)
    first = [round((grid.start_ms - start) / found.step_ms) for _, grid, _ in parts]
    rows = max((at + grid.steps for at, (_, grid, _) in zip(first, parts, strict=True)), default=0)
    values = np.full((len(groups), len(sensors), rows), np.nan, np.float32)
    for at, (row, grid, each) in zip(first, parts, strict=True):
        values[row, :, at : at + grid.steps] = each
    times_ms = start + found.step_ms * np.arange(rows, dtype=np.int64)
    units = {cells.sensors[int(each.sensor[0])]: reading.form.units.get(each.name, "") for each in cells.columns}
    made = _series(
        spec, path, groups, sensors, times_ms, values, found.step_ms / 1000,
        {} if long else units, 0 if stray is None else stray.count,
    )  # fmt: skip
    return replace(made, withheld=cells.withheld)


def _rows(reading: Reading, spec: DataSpec, path: Path) -> GroupSeries:
    """The rows of a wide table as consecutive steps, whatever their times; only declared numbers mean no value."""
    if reading.sensor_of_row is not None or reading.groups:
        raise DataError(f"{path.name}: grid = false needs a wide table with one row for each time")
    times = {reading.form.time, *reading.form.time.split("+")}
    numbers = [each.name for each in reading.table.schema if is_number(each.type) and each.name not in times]
    sensors = _chosen(numbers, spec.sensors, "sensor", path, named=False)
    values = np.stack([reading.table.column(name).cast(pa.float64()).to_numpy() for name in sensors])
    return _series(spec, path, [spec.group_name], sensors, reading.times_ms, values[None].astype(np.float32),
                   spec.step_s or reading.form.step_ms / 1000, reading.form.units, 0)  # fmt: skip


def _series(
    spec: DataSpec, path: Path, groups: Sequence[str], sensors: Sequence[str], times_ms: NDArray[np.int64],
    values: Floats, step_s: float, units: Mapping[str, str], stray: int,
) -> GroupSeries:  # fmt: skip
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    named = tuple(spec.units.get(name, units.get(name, "")) for name in sensors)
    return GroupSeries(tuple(groups), tuple(sensors), named, times_ms, values, step_s, path.name, digest, stray)


def _chosen(found: Sequence[str], wanted: Sequence[str], what: str, path: Path, *, named: bool) -> list[str]:
    """The wanted names in their order; without any, all found names, those in rows sorted, as rows have no order."""
    absent = [name for name in wanted if name not in found]
    if absent:
        raise DataError(f"{path.name}: expected {what} {', '.join(map(repr, absent))}, found {listed(list(found))}")
    return list(wanted) or (sorted(found) if named else list(found))


def _without_sentinels(column: ReadingColumn, sensors: Sequence[str], spec: DataSpec) -> ReadingColumn:
    """A column without the numbers that are declared to mean no value; a Parquet file may hold them as float32."""
    value = column.believed.astype(np.float32)
    blank = np.isin(value, np.array(spec.sentinels, np.float32))
    for name, numbers in spec.sensor_sentinels.items():
        blank |= np.isin(value, np.array(numbers, np.float32)) & (column.sensor == sensors.index(name))
    return replace(column, value=np.where(blank, np.nan, column.believed))
