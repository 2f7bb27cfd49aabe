"""The readings of a file or table as series on even grids, the input of `fill`, `fit`, `health` and `completeness`.

Cells are readings with the codes of their groups and sensors, for any layout of the rows. Each group has a grid
through the times of its rows, or the steps of a worker if the step comes from one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError, listed
from glaim_stream.core.stray_times import FEWEST, stray_times
from glaim_stream.core.times import NO_TIME
from glaim_stream.files.expected import Cadence, cadences, event_rows, marks_of_events, repeated_rows
from glaim_stream.files.form import Reading, duration
from glaim_stream.files.grid import Grid, put, step_of
from glaim_stream.files.kinds import is_text

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

SHORTEST_MONTH_MS = 28 * 86_400_000
_ANY_MS = 60_000
_MOST = 0.05  # tolerated share of the distances: clocks that are set or restart change some
# Fraction of a step by which a distance may miss a multiple: each of two stamps jitters by less than half of that.
_FAR = 0.3
_CLOSE = 0.1  # fraction of a step by which the median of a distance and its neighbours may miss a multiple
_SIDE = 4  # neighbours on each side: jitter misses multiples in both directions, another step in one


@dataclass(frozen=True)
class ReadingColumn:
    """A column of readings.

    place: index of the column in the table.
    group, sensor: int64 [rows], codes of each row's group and sensor.
    value: float64 [rows], readings; NaN where missing.
    hole: bool [rows], cells with a missing reading.
    kept: bool [rows], cells that hold something else than a usable reading: neither holes nor readings.
    doubted: bool [rows], readings that fill no other cell.
    """

    place: int
    name: str
    group: Ints
    sensor: Ints
    value: Doubles
    hole: Bools
    kept: Bools
    doubted: Bools

    @property
    def believed(self) -> Doubles:
        """The readings that may be used, float64 [rows]; NaN where missing or doubted."""
        return np.where(self.doubted, np.nan, self.value)


@dataclass(frozen=True)
class Cells:
    """The readings of a table; `times_ms` is int64 [rows], NO_TIME where a row has none."""

    times_ms: Ints
    groups: tuple[str, ...]
    sensors: tuple[str, ...]
    columns: tuple[ReadingColumn, ...]
    long: bool = False  # each row holds one reading
    repeated: Bools | None = None  # [rows]; see `repeated_rows`; None without any
    notes: tuple[str, ...] = ()  # sentences on empty cells that are no holes

    @property
    def holes(self) -> int:
        """Number of cells without a reading."""
        return sum(int(each.hole.sum()) for each in self.columns)

    @property
    def hole_times_ms(self) -> Ints:
        """Times of the cells without a reading, int64 [holes]."""
        return np.concatenate([self.times_ms[each.hole] for each in self.columns])

    @property
    def withheld_ms(self) -> dict[str, Ints]:
        """Times of cells that hold something and no reading to use, by sensor, behind its group if there are more."""
        found: dict[str, list[Ints]] = {}
        for each in self.columns:
            out = (each.kept | each.doubted) & (self.times_ms != NO_TIME)
            for code, rows in by_code(each.group * len(self.sensors) + each.sensor, out):
                group, sensor = divmod(code, len(self.sensors))
                name = f"{self.groups[group]} " * (len(self.groups) > 1) + self.sensors[sensor]
                found.setdefault(name, []).append(self.times_ms[rows])
        return {name: np.concatenate(times) for name, times in found.items()}

    @property
    def withheld(self) -> dict[str, int]:
        """Number of these cells by sensor."""
        return {name: len(times) for name, times in self.withheld_ms.items()}


@dataclass(frozen=True)
class Series:
    """The readings of a table on even grids.

    members: rows of each group in the table.
    grids: grid of each group, through the times of its rows.
    step: int64 [rows of the table], step of each row in the grid of its group, -1 without one. Where a row holds all
        groups, they share their grid.
    values: float64 [sensors, steps] for each group, NaN where no row has a reading.
    uneven: group that fits the step least; None where all fit.
    doubted: bool [sensors, steps] for each group, values that fill no other cell.
    slow: cadences of sensors that are read less often than the table has rows, by sensor, for each group.
    """

    step_ms: int
    members: tuple[Ints, ...]
    grids: tuple[Grid, ...]
    step: Ints
    values: tuple[Doubles, ...]
    uneven: Uneven | None = None
    doubted: tuple[Bools, ...] = ()
    slow: tuple[dict[int, Cadence], ...] = ()

    @property
    def even(self) -> bool:
        """Whether all steps can have the same length; months and years do not."""
        return self.step_ms < SHORTEST_MONTH_MS

    def cadence(self, group: int, sensor: int) -> Cadence:
        """The steps at which a sensor is read."""
        return self.slow[group].get(sensor, Cadence(1, 0)) if self.slow else Cadence(1, 0)

    def expected(self, cells: Cells) -> Cells:
        """The cells without holes off the cadences of their sensors.

        Args:
            cells: cells of the table.
        """
        if not any(self.slow):
            return cells
        columns, counts = [], dict[tuple[str, int], int]()
        for column in cells.columns:
            hole = column.hole.copy()
            for code, rows in by_code(column.group, column.hole):
                for sensor, mine in ((each, rows[column.sensor[rows] == each]) for each in self.slow[code]):
                    cadence = self.slow[code][sensor]
                    off = mine[cadence.off(self.step[mine])]
                    hole[off] = False
                    if len(off):
                        key = cells.sensors[sensor], cadence.every * self.step_ms
                        counts[key] = counts.get(key, 0) + len(off)
            columns.append(replace(column, hole=hole))
        said = [
            f"{sensor} {f'every {duration(every)}' if every else 'with one or two readings'} ({count:,})"
            for (sensor, every), count in counts.items()
        ]
        if not said:
            return cells
        note = f"sensors read less often than the file has rows: {listed(said)}: empty cells in between are no holes"
        return replace(cells, columns=tuple(columns), notes=(*cells.notes, note))


def name_of_file(name: str) -> str:
    """The name of a file without endings, for a file that names no group: pump-7.csv.gz gives pump-7."""
    stem = name.removesuffix(".gz")
    return stem.rsplit(".", 1)[0] or stem


def cells_of(reading: Reading, group: str) -> Cells:
    """Return readings as cells, each with its group and sensor.

    Args:
        reading: readings of a file.
        group: name of the only group of a file that names none.
    """
    form, rows = reading.form, reading.rows
    groups = tuple(reading.groups) or (group,)
    group_of_row = reading.group_of_row if reading.groups else np.zeros(rows, np.int64)
    times = np.where(group_of_row >= 0, reading.times_ms, NO_TIME)
    group_of_row = np.maximum(group_of_row, 0)
    if reading.sensor_of_row is not None:
        sensor = reading.sensor_of_row
        times = np.where(sensor >= 0, times, NO_TIME)
        place = reading.places[0]
        readings = reading.values[0], reading.kept[0], reading.doubted[0]
        column = _column(place, form.value, group_of_row, np.maximum(sensor, 0), readings, times)
        return as_logged(Cells(times, groups, tuple(form.sensors), (column,), long=True))
    names = list(form.sensors)
    if form.name_separator:
        pairs = [tuple(name.split(form.name_separator, 1)) for name in names]
        groups, sensors = (tuple(dict.fromkeys(pair[part] for pair in pairs)) for part in (0, 1))
        code = [(groups.index(pair[0]), sensors.index(pair[1])) for pair in pairs]
    else:
        sensors, code = tuple(names), [(-1, place) for place in range(len(names))]
    columns = []
    each_column = zip(reading.values, reading.kept, reading.doubted, strict=True)
    for name, place, (group_code, sensor_code), mine in zip(names, reading.places, code, each_column, strict=True):
        of_row = group_of_row if group_code < 0 else np.broadcast_to(np.int64(group_code), rows)
        sensor = np.broadcast_to(np.int64(sensor_code), rows)  # one number, whatever the rows
        columns.append(_column(place, name, of_row, sensor, mine, times))
    texts = [reading.table.column(each) for each in form.unused if each in reading.table.column_names]
    return as_logged(Cells(times, groups, sensors, tuple(columns)), texts, form.step_ms)


def as_logged(cells: Cells, texts: Sequence[Any] = (), step_ms: int = 0) -> Cells:
    """The cells without holes in rows of events, such as a logger's that was read out, and with a clock's repeats.

    Args:
        cells: cells of a table.
        texts: Arrow columns that are neither readings nor tell times, groups or sensors.
        step_ms: usual time between two rows of a group; 0: events are not looked for.
    """
    return _with_repeats(_without_events(cells, texts, step_ms) if step_ms and texts else cells)


def _without_events(cells: Cells, texts: Sequence[Any], step_ms: int) -> Cells:
    filled = [
        np.asarray(pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(pc.cast(each, pa.string())), ""), False), np.bool_)
        for each in texts if is_text(each.type)
    ]  # fmt: skip
    rows_of_table = len(cells.times_ms)
    marked = marks_of_events(filled, rows_of_table)
    if not marked.any():
        return cells
    read = np.zeros(rows_of_table, np.bool_)
    for column in cells.columns:
        read |= np.isfinite(column.value) | column.kept
    events = np.zeros(rows_of_table, np.bool_)
    for rows in _members(cells):
        events[rows] = event_rows(cells.times_ms[rows], read[rows], marked[rows], step_ms)
    if not events.any():
        return cells
    note = f"rows of events without a reading: {int(events.sum()):,}: their cells are no holes and stay empty"
    columns = tuple(replace(each, hole=each.hole & ~events) for each in cells.columns)
    return replace(cells, columns=columns, notes=(*cells.notes, note))


def _with_repeats(cells: Cells) -> Cells:
    """The cells with the rows whose times a clock repeats."""
    repeated = np.zeros(len(cells.times_ms), np.bool_)
    if cells.long:
        (column,) = cells.columns
        parts = by_code(column.group * len(cells.sensors) + column.sensor, np.ones(len(repeated), np.bool_))
        of_series = [rows for _, rows in parts]
    else:
        of_series = list(_members(cells))
    for rows in of_series:
        repeated[rows] |= repeated_rows(cells.times_ms[rows], [each.value for each in cells.columns], rows)
    return replace(cells, repeated=repeated) if repeated.any() else cells


def _column(
    place: int, name: str, group: Ints, sensor: Ints, readings: tuple[Doubles, Bools, Bools], times_ms: Ints
) -> ReadingColumn:
    """A column with its holes; rows without a time have none, since their moment is unknown."""
    values, kept, doubted = readings
    known = np.isfinite(values)
    timed = times_ms != NO_TIME
    hole, kept = ~known & ~kept & timed, kept & timed
    return ReadingColumn(place, name, group, sensor, np.where(known, values, np.nan), hole, kept, doubted & known)


def without_stray_rows(cells: Cells) -> tuple[Cells, StrayRows | None]:
    """Remove stray times, far from all others, so that their rows are neither filled nor used."""
    stray = stray_rows(cells.times_ms, _members(cells))
    if not stray.any():
        return cells, None
    columns = tuple(replace(each, hole=each.hole & ~stray) for each in cells.columns)
    times_ms = np.where(stray, NO_TIME, cells.times_ms)
    return replace(cells, times_ms=times_ms, columns=columns), counted(cells.times_ms, stray)


def series_of(
    cells: Cells,
    *,
    step_ms: int | None = None,
    as_streamed: bool = False,
    bucket: str = "last",
    directions: Collection[str] = (),
    may_be_empty: bool = False,
) -> Series:
    """Place the readings of a table in even series.

    Args:
        cells: cells of the table.
        step_ms: time between two steps; found from the times by default.
        as_streamed: use a worker's steps, see Grid.streamed; otherwise the grid goes through the rows' times.
        bucket: value of a step with several readings, `last` (the latest) or `mean`.
        directions: sensors in degrees; their means are those of unit vectors.
        may_be_empty: accept a table without readings, or without two different times, whose step may be any.

    Raises:
        SettingsError: the table has no readings, or its times show no grid.
    """
    if not may_be_empty and not any(np.isfinite(each.value).any() for each in cells.columns):
        raise SettingsError(f"expected readings, found none in {len(cells.times_ms):,} rows")
    members = _members(cells)
    clocks = _clocks(cells, members)
    if may_be_empty and not any(len(np.unique(each[each != NO_TIME])) > 1 for each in clocks):
        step_ms = step_ms or _ANY_MS
    step_ms = step_ms or step_of(clocks)
    grids = tuple(_grid(cells.times_ms[rows], step_ms, as_streamed) for rows in members)
    step = np.full(len(cells.times_ms), -1, np.int64)
    for rows, grid in zip(members, grids, strict=True):
        step[rows] = grid.rows
    values = tuple(np.full((len(cells.sensors), grid.steps), np.nan) for grid in grids)
    turned = np.isin(cells.sensors, list(directions))
    for column in cells.columns:
        for code, known in by_code(column.group, np.isfinite(column.value)):
            known = known[step[known] >= 0]
            known = known[np.argsort(cells.times_ms[known], kind="stable")]
            turning = turned[column.sensor[known]] if turned.any() else None
            place = column.sensor[known], step[known]
            put(values[code], place, column.value[known], bucket=bucket, turning=turning)
    doubted = tuple(np.zeros(each.shape, np.bool_) for each in values)
    for column in cells.columns:
        for code, rows in by_code(column.group, column.doubted):
            rows = rows[step[rows] >= 0]
            place = column.sensor[rows], step[rows]
            # Where rows share a step, the value that counts may be that of another row.
            mine = (values[code][place] == column.value[rows]) | (bucket == "mean")
            doubted[code][place[0][mine], place[1][mine]] = True
    irregular = uneven(grids, [cells.times_ms[rows] for rows in members])
    read = [[np.flatnonzero(row) for row in np.isfinite(each)] for each in values]
    slow = tuple(cadences(dict(enumerate(each))) for each in read)
    return Series(step_ms, members, grids, step, values, irregular, doubted, slow)


def _grid(times_ms: Ints, step_ms: int, as_streamed: bool) -> Grid:
    """The grid of a group's rows; one empty step if no row has a time."""
    if (times_ms == NO_TIME).all():
        return Grid(0, step_ms, 1, np.full(len(times_ms), -1, np.int64))
    return Grid.streamed(times_ms, step_ms) if as_streamed else Grid.of(times_ms, step_ms)


def _clocks(cells: Cells, members: Sequence[Ints]) -> list[Ints]:
    """Times to find the step from: those of each group, or of each sensor if a row holds one reading.

    Otherwise sensors that report seconds after each other would look like a step of seconds.
    """
    if not cells.long:
        return [cells.times_ms[rows] for rows in members]
    (column,) = cells.columns
    series = column.group * len(cells.sensors) + column.sensor
    return [cells.times_ms[rows] for _, rows in by_code(series, np.ones(len(series), np.bool_))]


def _members(cells: Cells) -> tuple[Ints, ...]:
    """The rows of each group."""
    of_group: list[list[Ints]] = [[] for _ in cells.groups]
    for column in cells.columns:
        for code, rows in by_code(column.group, np.ones(len(column.group), np.bool_)):
            of_group[code].append(rows)
    return tuple(np.unique(np.concatenate(rows)) if rows else np.empty(0, np.int64) for rows in of_group)


def by_code(codes: Ints, chosen: Bools) -> list[tuple[int, Ints]]:
    """The chosen rows by their code."""
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return []
    order = rows[np.argsort(codes[rows], kind="stable")]
    found, starts = np.unique(codes[order], return_index=True)
    return [(int(code), part) for code, part in zip(found, np.split(order, starts[1:]), strict=True)]


@dataclass(frozen=True)
class StrayRows:
    """The number of rows with a stray time, and the first of them (counted from 0) with its time."""

    count: int
    row: int
    time_ms: int

    def said(self, time: str, *, counted_from: int = 1) -> str:
        """A sentence about the stray rows.

        Args:
            time: time of the first stray row, as text.
            counted_from: number of the table's first row.
        """
        first = f"{'first ' if self.count > 1 else ''}row {self.row + counted_from:,}, {time}"
        return (
            f"rows with a time far from all others, as of a wrong clock: {self.count:,} ({first}): kept as they are, "
            "not filled, and not used to fill others"
        )


def stray_rows(times_ms: Ints, members: Sequence[Ints]) -> Bools:
    """Find the rows whose times are far from the others of their group; for the rule see `stray_times`.

    They are of a wrong clock: a row of 1970 among those of this week would make a grid of millions of steps, in which
    no window is observed. Groups may lie years apart, since each has its own grid. A group with too few rows for the
    rule is compared with all rows of the table.

    Args:
        times_ms: int64 [rows], NO_TIME where a row has none.
        members: rows of each group.
    """
    dated = np.flatnonzero(times_ms != NO_TIME)
    among_all = np.zeros(len(times_ms), np.bool_)
    among_all[dated] = stray_times(times_ms[dated])
    found = np.zeros(len(times_ms), np.bool_)
    for rows in members:
        mine = rows[times_ms[rows] != NO_TIME]
        found[mine] = stray_times(times_ms[mine]) if len(mine) >= FEWEST else among_all[mine]
    return found


def counted(times_ms: Ints, stray: Bools) -> StrayRows | None:
    """Count stray rows; None without any."""
    if not stray.any():
        return None
    first = int(np.argmax(stray))
    return StrayRows(int(stray.sum()), first, int(times_ms[first]))


@dataclass(frozen=True)
class Uneven:
    """A group in which too many distances between rows are not multiples of the step.

    count, of: number of such distances, and of all.
    """

    group: int
    count: int
    of: int
    step_ms: int

    @property
    def share(self) -> float:
        """The share of the distances that are not multiples."""
        return self.count / self.of


def uneven(grids: Sequence[Grid], times_ms: Sequence[Ints]) -> Uneven | None:
    """Find the group that fits its step least; None where all fit.

    Args:
        grids: grids of the groups, all with the same step.
        times_ms: int64 [rows] for each group, times of its rows.
    """
    found = [_judged(code, *pair) for code, pair in enumerate(zip(grids, times_ms, strict=True))]
    return max((each for each in found if each.of and each.share > _MOST), key=lambda each: each.share, default=None)


def _judged(group: int, grid: Grid, times_ms: Ints) -> Uneven:
    dated = grid.rows >= 0
    # Where rows share a step, the first one counts.
    order = np.argsort(times_ms[dated], kind="stable")
    _, first = np.unique(grid.rows[dated][order], return_index=True)
    distances = np.diff(times_ms[dated][order][first]) / grid.step_ms
    if not len(distances):
        return Uneven(group, 0, 0, grid.step_ms)
    missed = distances - np.floor(distances + 0.5)
    around = np.lib.stride_tricks.sliding_window_view(np.pad(missed, _SIDE, mode="symmetric"), 2 * _SIDE + 1)
    count = int(((np.abs(missed) > _FAR) | (np.abs(np.median(around, axis=1)) > _CLOSE)).sum())
    return Uneven(group, count, len(distances), grid.step_ms)
