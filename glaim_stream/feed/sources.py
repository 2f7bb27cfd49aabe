"""Readings from files, wide or long, and from the simulated plant. Times are epoch milliseconds, UTC.

Wide: one time column and one column `<group>.<sensor>` per sensor. Long: the columns `group`, `sensor`, a time and
`value`. A cell that is empty, NaN, infinite or a sentinel such as -9999 is a gap of the file: it is counted and never
sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.errors import SettingsError, listed
from glaim_stream.feed.files import read_file
from glaim_stream.feed.kinds import is_number
from glaim_stream.feed.time_columns import column_ms, joined

DEFAULT_MISSING = ("-9999",)
TIME_NAMES = ("ts", "time", "timestamp", "datetime", "date")
Floats = NDArray[np.float32] | NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Source:
    """Readings in order of time; `cell`, `time_ms` and `value` have the length n."""

    cells: list[tuple[str, str]]  # (group, sensor) by cell code
    cell: NDArray[np.int32]
    time_ms: NDArray[np.int64]
    value: Floats  # finite; as wide as in the file, so that 12.3 is sent as 12.3
    gaps: int = 0  # cells of the file without a reading
    skipped: tuple[str, ...] = ()  # columns that are not numbers, and so no sensors

    def __len__(self) -> int:
        return len(self.cell)

    @property
    def groups(self) -> list[str]:
        """Groups, each once, in the order of the file."""
        return list(dict.fromkeys(group for group, _ in self.cells))

    @property
    def group_of_cell(self) -> NDArray[np.int32]:
        """Index into `groups` of each cell code."""
        place = {group: index for index, group in enumerate(self.groups)}
        return np.array([place[group] for group, _ in self.cells], np.int32)

    def where(self, keep: NDArray[np.bool_]) -> Self:
        """The chosen readings, by bool [n]."""
        return type(self)(self.cells, self.cell[keep], self.time_ms[keep], self.value[keep], self.gaps, self.skipped)

    def between(self, first_ms: int | None, until_ms: int | None) -> Self:
        """Readings with `first_ms <= time < until_ms`."""
        low = 0 if first_ms is None else int(np.searchsorted(self.time_ms, first_ms))
        high = len(self) if until_ms is None else int(np.searchsorted(self.time_ms, until_ms))
        keep = np.zeros(len(self), np.bool_)
        keep[low:high] = True
        return self.where(keep)


def read_source(
    path: Path,
    *,
    separator: str = ".",
    time_column: str | None = None,
    group: str | None = None,
    missing: Sequence[str] = DEFAULT_MISSING,
    timezone: str = "UTC",
    date_order: str = "",
) -> Source:
    """Read a file.

    Args:
        path: CSV or Parquet (glaim_stream.feed.files).
        separator: separates group and sensor in a wide file's column names; the first one in the name counts, so that
            sensor ids may contain it (`station-7.PM2.5`).
        time_column: one column, or two, as `Date+Clock`; default: the first of ts, time, timestamp, datetime, date in
            the file.
        group: the group of every column of a wide file, or row of a long one, that names none itself.
        missing: numbers and texts that mean "no reading".
        timezone: zone of timestamps that carry none.
        date_order: order of dates that do not begin with their year, one of time_columns.ORDERS; empty: inferred from
            the dates.

    Raises:
        SettingsError: the file cannot be read, or is neither wide nor long.
    """
    sentinels, texts = _sentinels(missing)
    table = joined(read_file(path, no_value=texts), time_column or "")
    times = time_column or next((name for name in TIME_NAMES if name in table.column_names), None)
    if times is None or times not in table.column_names:
        expected = f"a time column {time_column!r}" if time_column else f"a time column, one of {list(TIME_NAMES)}"
        raise SettingsError(f"{path}: expected {expected}, found the columns {listed(table.column_names)}")
    stamps, what = table[times].combine_chunks(), f"{path}, column {times!r}"
    time_ms = column_ms(stamps, timezone=timezone, what=what, order=date_order)
    table = table.drop_columns([times])
    long = {"sensor", "value"} <= set(table.column_names)
    source = _long(table, time_ms, group, path) if long else _wide(table, time_ms, group, separator, path)
    source = _usable(source, sentinels)
    if len(source) == 0:
        raise SettingsError(f"{path}: expected readings, found none in {table.num_rows} rows")
    order = np.argsort(source.time_ms, kind="stable")
    return Source(
        source.cells, source.cell[order], source.time_ms[order], source.value[order], source.gaps, source.skipped
    )


def plant_source(days: float, *, groups: int = 8, seed: int = 0, start_ms: int | None = None) -> Source:
    """The simulated plant (glaim_stream.feed.plant), without gaps; `start_ms`: time of its first reading.

    Raises:
        SettingsError: there would be no step or no group.
    """
    from glaim_stream.feed.plant import START_MS, simulate

    try:
        plant = simulate(days, groups=groups, seed=seed, start_ms=START_MS if start_ms is None else start_ms)
    except ValueError as error:
        raise SettingsError(f"simulated plant: {error}") from error
    cells = [(group, sensor) for group in plant.groups for sensor in plant.sensor_ids]
    values = plant.values.reshape(len(cells), -1).T
    return _flat(cells, plant.times_ms, np.ascontiguousarray(values))


def _wide(table: pa.Table, time_ms: NDArray[np.int64], group: str | None, separator: str, path: Path) -> Source:
    cells, columns, skipped = [], [], []
    for name in table.column_names:
        column = table[name]
        if not is_number(column.type):
            skipped.append(name)
            continue
        if group is not None:
            cells.append((group, name))
        else:
            head, found, tail = name.partition(separator)
            if not found or not head or not tail:
                raise SettingsError(
                    f"{path}: expected columns named <group>{separator}<sensor>, found {name!r}; "
                    "give another separator, or one group for all columns"
                )
            cells.append((head, tail))
        columns.append(_numbers(column))
    if not cells:
        raise SettingsError(f"{path}: expected number columns beside the time, found {listed(table.column_names)}")
    narrow = all(column.dtype == np.float32 for column in columns)
    values: NDArray[Any] = np.stack(columns, axis=1, dtype=np.float32 if narrow else np.float64)
    return _flat(cells, time_ms, values, tuple(skipped))


def _flat(
    cells: list[tuple[str, str]], time_ms: NDArray[np.int64], values: Floats, skipped: tuple[str, ...] = ()
) -> Source:
    """Readings of `values` [T, cells], one time after the other."""
    cell = np.tile(np.arange(len(cells), dtype=np.int32), len(time_ms))
    return Source(cells, cell, np.repeat(time_ms, len(cells)), values.ravel(), 0, skipped)


def _long(table: pa.Table, time_ms: NDArray[np.int64], group: str | None, path: Path) -> Source:
    if "group" not in table.column_names and group is None:
        raise SettingsError(f"{path}: a long file needs a column group, or one group given for all its rows")
    groups = table["group"] if "group" in table.column_names else pa.array([group] * table.num_rows)
    group_code, group_names = _codes(groups, path, "group")
    sensor_code, sensor_names = _codes(table["sensor"], path, "sensor")
    pair, cell = np.unique(group_code * len(sensor_names) + sensor_code, return_inverse=True)
    cells = [(group_names[each // len(sensor_names)], sensor_names[each % len(sensor_names)]) for each in pair.tolist()]
    if not is_number(table["value"].type):
        raise SettingsError(f"{path}: expected numbers in the column value, found {table['value'].type}")
    return Source(cells, cell.astype(np.int32), time_ms, _numbers(table["value"]))


def _codes(column: Any, path: Path, what: str) -> tuple[NDArray[np.int64], list[str]]:
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if column.null_count:
        raise SettingsError(f"{path}: column {what} has {column.null_count} empty rows")
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    names = [str(name) for name in column.dictionary.to_pylist()]
    return column.indices.to_numpy(zero_copy_only=False).astype(np.int64), names


def _sentinels(missing: Sequence[str]) -> tuple[list[float], list[str]]:
    """Split what means "no reading" into numbers and other texts."""
    numbers, texts = [], []
    for text in missing:
        try:
            numbers.append(float(text))
        except ValueError:
            texts.append(text)
    return numbers, texts


def _usable(source: Source, sentinels: Sequence[float]) -> Source:
    keep = np.isfinite(source.value)
    for sentinel in sentinels:
        keep &= source.value != source.value.dtype.type(sentinel)
    kept = source.where(keep)
    gaps = len(source) - len(kept)
    return Source(kept.cells, kept.cell, kept.time_ms, kept.value, gaps, kept.skipped)


def _numbers(column: pa.ChunkedArray) -> Floats:
    target = pa.float32() if pa.types.is_float32(column.type) else pa.float64()
    array = pc.cast(column, target).combine_chunks()
    return array.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # null becomes NaN
