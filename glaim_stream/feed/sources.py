"""Readings from wide or long files and from the simulated plant. Times are epoch milliseconds, UTC.

`glaim_stream.files.read` finds the form of a file. A cell that is empty, NaN or a sentinel is a gap of the file. One
with a text, an infinity, or a number that the file's own marks or shape make doubtful is withheld. Both are counted and
never sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError, listed
from glaim_stream.core.times import NO_TIME
from glaim_stream.files import Cells, Reading, cells_of, name_of_file, read

Floats = NDArray[np.float32] | NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Source:
    """Readings in order of time; `cell`, `time_ms` and `value` have the length n."""

    cells: list[tuple[str, str]]  # (group, sensor) by cell code
    cell: NDArray[np.int32]
    time_ms: NDArray[np.int64]
    value: Floats  # finite, with the width of the file, so that 12.3 is sent as 12.3
    gaps_ms: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # of cells without a reading
    withheld_ms: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)  # see `Cells.withheld_ms`
    skipped: tuple[str, ...] = ()  # columns that are not sensors
    notes: tuple[str, ...] = ()  # sentences on how the file was read

    @classmethod
    def without_readings(cls, cells: list[tuple[str, str]]) -> Self:
        """Names alone."""
        return cls(cells, np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.float64))

    def __len__(self) -> int:
        return len(self.cell)

    @property
    def groups(self) -> list[str]:
        """The groups, in the order of the file."""
        return list(dict.fromkeys(group for group, _ in self.cells))

    @property
    def group_of_cell(self) -> NDArray[np.int32]:
        """Index into `groups` of each cell code."""
        place = {group: index for index, group in enumerate(self.groups)}
        return np.array([place[group] for group, _ in self.cells], np.int32)

    @property
    def gaps(self) -> int:
        """Number of cells of the file without a reading."""
        return len(self.gaps_ms)

    @property
    def withheld(self) -> dict[str, int]:
        """Number of cells that are no reading to use, by sensor."""
        return {sensor: len(times) for sensor, times in self.withheld_ms.items() if len(times)}

    @property
    def withheld_note(self) -> str:
        """The number of withheld cells, by sensor; "" without any."""
        return listed([f"{sensor} {count:,}" for sensor, count in self.withheld.items()])

    def where(self, keep: NDArray[np.bool_]) -> Self:
        """The readings that `keep`, bool [n], chooses."""
        return replace(self, cell=self.cell[keep], time_ms=self.time_ms[keep], value=self.value[keep])

    def between(self, first_ms: int | None, until_ms: int | None) -> Self:
        """The readings, gaps and withheld cells with `first_ms <= time < until_ms`."""
        low = 0 if first_ms is None else int(np.searchsorted(self.time_ms, first_ms))
        high = len(self) if until_ms is None else int(np.searchsorted(self.time_ms, until_ms))
        keep = np.zeros(len(self), np.bool_)
        keep[low:high] = True

        def inside(times_ms: NDArray[np.int64]) -> NDArray[np.int64]:
            low, high = np.iinfo(np.int64).min if first_ms is None else first_ms, until_ms
            return times_ms[(times_ms >= low) & (True if high is None else times_ms < high)]

        withheld = {sensor: inside(times) for sensor, times in self.withheld_ms.items()}
        return replace(self.where(keep), gaps_ms=inside(self.gaps_ms), withheld_ms=withheld)


def read_source(
    path: Path,
    *,
    separator: str = ".",
    time_column: str | None = None,
    group: str | None = None,
    missing: Sequence[str] = (),
    timezone: str | None = None,
    date_order: str = "",
    decimal: str = "",
    group_column: str | None = None,
) -> Source:
    """Read a file.

    Args:
        path: file of any kind that `glaim_stream.files.read` reads.
        separator: separator of group and sensor in a wide file's column names, if all names contain it; otherwise it is
            detected. The first one in a name counts, so that sensor ids may contain it (`station-7.PM2.5`).
        time_column: time column, or several as `Date+Clock`; default: detected.
        group: group of a file that names none; default: the file's name.
        missing: numbers and texts that mean a missing value, besides those that are detected.
        timezone: zone of timestamps that carry none; default: that in the name of their column, or UTC.
        date_order: order of dates that do not begin with the year, dmy or mdy; empty: inferred from the dates.
        decimal: decimal sign; empty: inferred from the numbers.
        group_column: column that names the group of a row; default: detected.

    Raises:
        SettingsError: the file cannot be read, can be read in two ways, or holds filled values.
    """
    reading = read(
        path, time=time_column, timezone=timezone, date_order=date_order, missing=missing, decimal=decimal,
        separator=separator, group=group_column, only_readings=True,
    )  # fmt: skip
    if reading.form.axis:
        raise SettingsError(
            f"{path}: it has depths or elapsed times and no dates, so it is no stream; `glaim-stream fill` fills it"
        )
    notes = list(reading.form.notes)
    if group is not None:
        reading = replace(reading, form=replace(reading.form, name_separator=""))
    elif not (reading.groups or reading.form.name_separator or reading.form.sensor):
        notes.append(f"its columns name no groups: all of them belong to the group {name_of_file(path.name)!r}")
    source = _of_cells(cells_of(reading, group or name_of_file(path.name)))
    if not len(source):
        why = f" that can be used (withheld: {source.withheld_note})" if source.withheld else ""
        raise SettingsError(f"{path}: expected readings, found none in {reading.rows} rows{why}")
    if all(pa.types.is_float32(reading.table.schema.field(name).type) for name in _columns_of_readings(reading)):
        source = replace(source, value=source.value.astype(np.float32))
    return replace(source, skipped=tuple(reading.form.unused), notes=tuple(notes))


def _columns_of_readings(reading: Reading) -> Sequence[str]:
    return [reading.form.value] if reading.form.sensor else reading.form.sensors


def _of_cells(cells: Cells) -> Source:
    """The readings of a file, in order of time."""
    code = np.stack([each.group * len(cells.sensors) + each.sensor for each in cells.columns], axis=1)
    value = np.stack([each.believed for each in cells.columns], axis=1)
    timed = np.flatnonzero(cells.times_ms != NO_TIME)
    timed = timed[np.argsort(cells.times_ms[timed], kind="stable")]
    pairs, place = np.unique(code[timed], return_inverse=True)
    known = np.isfinite(value[timed])
    time_ms = np.broadcast_to(cells.times_ms[timed][:, None], known.shape)
    names = [(cells.groups[each // len(cells.sensors)], cells.sensors[each % len(cells.sensors)]) for each in pairs]
    cell: NDArray[np.int32] = place.reshape(known.shape).astype(np.int32)
    return Source(names, cell[known], time_ms[known], value[timed][known], cells.hole_times_ms, cells.withheld_ms)


def plant_source(days: float, *, groups: int = 8, seed: int = 0, start_ms: int | None = None) -> Source:
    """The simulated plant (glaim_stream.feed.plant), without gaps; `start_ms` is the time of its first reading.

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


def _flat(cells: list[tuple[str, str]], time_ms: NDArray[np.int64], values: Floats) -> Source:
    """The readings of `values` [T, cells], in order of time."""
    cell = np.tile(np.arange(len(cells), dtype=np.int32), len(time_ms))
    return Source(cells, cell, np.repeat(time_ms, len(cells)), values.ravel())
