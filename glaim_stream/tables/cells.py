"""Fills the even series of a table and writes the values back into its cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.vocabulary import Method
from glaim_stream.files import (
    SHORTEST_MONTH_MS,
    Cells,
    Grid,
    ReadingColumn,
    Series,
    Uneven,
    by_code,
    duration,
    series_of,
)
from glaim_stream.form import ClosedForm, Kind
from glaim_stream.tables.columns import FilledColumn, NewRows
from glaim_stream.tables.fill import Group, Result, fill_groups
from glaim_stream.tables.fitted import kinds_of
from glaim_stream.tables.groups import FilledGroup, Progress, Trainer
from glaim_stream.tables.lines import at_times, spread
from glaim_stream.tables.work import Work

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

BETWEEN = "between two readings that are doubtful"
ELSEWHERE = "another row of the same step has the reading"
REPEATED = "in rows with the times of others and other readings, as of a clock that was set back"
# Most new rows for each row of the file. files.grid has the same limit: where fewer than a tenth of the steps have
# rows, a time or the step is wrong, or the file has too few readings to fill the rest.
_MOST = 10
_FEW = 1_000  # new rows that any file may get: a person can check them


@dataclass(frozen=True)
class Doubts:
    """The number of a sensor's doubtful readings, and the first of them."""

    count: int
    value: float
    time_ms: int


@dataclass(frozen=True)
class Outcome:
    """A filled table.

    columns: the columns of `Cells`, filled.
    filled: number of cells by method.
    left: number of cells left empty, by reason.
    missing_rows: number of the groups' steps without a row.
    shared_rows: number of rows whose step has an earlier row of the same group.
    unordered: number of rows below a later row of their group.
    grids, members: grid and rows of each group.
    uneven: group that fits the step least; None where all fit.
    """

    columns: tuple[FilledColumn, ...]
    result: Result
    filled: dict[str, int]
    left: dict[str, int]
    missing_rows: int
    shared_rows: int
    unordered: int
    grids: tuple[Grid, ...]
    members: tuple[Ints, ...]
    sensors: tuple[str, ...] = ()
    long: bool = False  # each row holds one reading
    sensor_holes: dict[str, tuple[int, int]] = field(default_factory=dict)  # numbers of all holes and of filled ones
    doubts: dict[str, Doubts] = field(default_factory=dict)  # only sensors with doubtful readings
    uneven: Uneven | None = None

    @property
    def even(self) -> bool:
        """Whether all steps can have the same length; months and years do not."""
        return all(grid.step_ms < SHORTEST_MONTH_MS for grid in self.grids)


def fill_cells(
    cells: Cells,
    found: Series | None = None,
    *,
    form: ClosedForm | None = None,
    train: Trainer | None = None,
    max_gap: int | None = None,
    timezone: str = "UTC",
    plausibility: bool = True,
    work: Work | None = None,
    progress: Progress | None = None,
    beside: bool = False,
) -> Outcome:
    """Fill the holes of a table.

    Args:
        cells: cells of the table.
        found: result of `series_of` for these cells, if known.
        form: fitted closed form; None fits one to these readings.
        train: function that trains a network beside the closed form; see fill_groups.
        max_gap: longest filled gap in steps; see fill_groups.
        timezone: time zone of daily habits.
        plausibility: keep readings that stand apart from their neighbours out of the fill.
        work: how the groups are worked on; None: one after the other in this process.
        progress: called with the numbers of finished and of all parts.
        beside: give a hole whose step has a reading in another row that reading, instead of leaving it.

    Raises:
        SettingsError: the table has no readings, its times show no grid, or the model has another step.
        ModelError: there are too few rows for a fit.
    """
    found = found or series_of(cells)
    if form is not None and form.step_ms != found.step_ms:
        raise SettingsError(f"the model has a step of {form.step_ms:,} ms, and the file one of {found.step_ms:,} ms")
    result = fill_groups(
        groups_of(cells, found), sensors=cells.sensors, form=form, train=train, max_gap=max_gap, timezone=timezone,
        plausibility=plausibility, work=work, progress=progress,
    )  # fmt: skip
    kinds = kinds_of(result.forms, cells.sensors)
    columns, left = columns_of(cells, found, result.groups, beside=beside, kinds=kinds)
    grids = found.grids
    methods = Counter[str]()
    holes: dict[str, tuple[int, int]] = {}
    for column, done in zip(cells.columns, columns, strict=True):
        for code, count in zip(*np.unique(done.method[done.rows], return_counts=True), strict=True):
            methods[Method(int(code)).name.lower()] += int(count)
        for sensor, rows in by_code(column.sensor, column.hole):
            before = holes.get(cells.sensors[sensor], (0, 0))
            filled = int(np.isfinite(done.value[rows]).sum())
            holes[cells.sensors[sensor]] = (before[0] + len(rows), before[1] + filled)
    unordered = sum(int((np.diff(grid.rows[grid.rows >= 0]) < 0).sum()) for grid in grids)
    pairs = len(cells.sensors) if cells.long else 1
    shared = sum(grid.shared for grid in grids) if pairs == 1 else 0
    return Outcome(
        columns, result, dict(methods), dict(left), sum(grid.empty for grid in grids), shared, unordered, grids,
        found.members, cells.sensors, cells.long, holes, _doubts(cells, columns), found.uneven,
    )  # fmt: skip


def groups_of(cells: Cells, found: Series) -> list[Group]:
    """Return the groups of a table that was placed in even series."""
    placed = zip(cells.groups, found.grids, found.values, found.doubted, strict=True)
    return [Group(name, grid.times_ms, values, doubted) for name, grid, values, doubted in placed]


def columns_of(
    cells: Cells,
    found: Series,
    filled: Sequence[FilledGroup],
    *,
    beside: bool = False,
    kinds: Sequence[Kind | None] = (),
) -> tuple[tuple[FilledColumn, ...], Counter[str]]:
    """Return the filled columns of a table, and the number of cells left empty by reason.

    Args:
        cells: cells of the table.
        found: the table's series.
        filled: filled groups.
        beside: see `fill_cells`.
        kinds: kinds of the sensors, for rows whose step has a reading in another row; unknown by default.
    """
    left: Counter[str] = Counter()
    of_table = cells.columns
    if cells.repeated is not None:
        left[REPEATED] = sum(int((each.hole & cells.repeated).sum()) for each in of_table)
        of_table = tuple(replace(each, hole=each.hole & ~cells.repeated) for each in of_table)
    columns = [_column(each, found, filled, left, beside) for each in of_table]
    if not beside:
        done = [_at_own_times(*pair, cells, found, kinds) for pair in zip(of_table, columns, strict=True)]
        left[ELSEWHERE] -= sum(done)
    return tuple(columns), +left


def _at_own_times(
    column: ReadingColumn, done: FilledColumn, cells: Cells, found: Series, kinds: Sequence[Kind | None]
) -> int:
    """Fill the rows whose step has a reading in another row, at the times of the rows; returns their number.

    Args:
        column: column of the table.
        done: filled column, changed in place.
        cells: cells of the table.
        found: the table's series.
        kinds: kinds of the sensors.
    """
    known = np.isfinite(column.value) & (found.step >= 0)
    usable = known & ~done.doubted
    usable &= True if cells.repeated is None else ~cells.repeated
    filled = 0
    for code, holes in by_code(column.group, column.hole):
        taken = holes[np.isfinite(found.values[code][column.sensor[holes], found.step[holes]])]
        for sensor in np.unique(column.sensor[taken]).tolist():
            mine = (column.group == code) & (column.sensor == sensor)
            wanted = np.zeros(len(mine), np.bool_)
            wanted[taken] = mine[taken]
            rows = np.flatnonzero((known & mine) | wanted)
            rows = rows[np.argsort(cells.times_ms[rows], kind="stable")]
            hole, used = wanted[rows], usable[rows]
            times = spread(cells.times_ms[rows], ~hole) if cells.long else cells.times_ms[rows].astype(np.float64)
            value, half = at_times(times[used], column.value[rows[used]], times[hole], kinds[sensor])
            made = np.isfinite(value) & ~np.isin(times[hole], times[~hole])  # at its very time, a reading is doubtful
            rows, value, half = rows[hole][made], value[made], half[made]
            done.value[rows], done.lower[rows], done.upper[rows] = value, value - half, value + half
            done.method[rows] = Method.INTERPOLATION
            filled += len(rows)
    return filled


def _column(
    column: ReadingColumn, found: Series, filled: Sequence[FilledGroup], left: Counter[str], beside: bool
) -> FilledColumn:
    rows = len(column.value)
    value, lower, upper = (np.full(rows, np.nan) for _ in range(3))
    known = np.isfinite(column.value)
    doubted = np.zeros(rows, np.bool_)
    method = np.where(known, Method.OBSERVED, Method.NONE).astype(np.uint8)
    for code, holes in by_code(column.group, column.hole):
        at, group = found.step[holes], filled[code]
        sensor = column.sensor[holes]
        if not beside:
            taken = np.isfinite(found.values[code][sensor, at])
            left[ELSEWHERE] += int(taken.sum())
            holes, at, sensor = holes[~taken], at[~taken], sensor[~taken]
        if (shut := _between(found.values[code], filled[code].doubted & found.doubted[code])[sensor, at]).any():
            left[BETWEEN] += int(shut.sum())
            holes, at, sensor = holes[~shut], at[~shut], sensor[~shut]
        value[holes], lower[holes], upper[holes] = (
            each[sensor, at] for each in (group.values, group.lower, group.upper)
        )
        method[holes] = group.method[sensor, at]
        empty = int((~np.isfinite(value[holes])).sum())
        if empty:
            left[_reason(group.left)] += empty
    for code, seen in by_code(column.group, known):
        at, sensor = found.step[seen], column.sensor[seen]
        # Where rows share a step, only the row whose reading counts was judged.
        judged = (at >= 0) & (found.values[code][sensor, at] == column.value[seen])
        doubted[seen] = judged & filled[code].doubted[sensor, at]
    return FilledColumn(column.place, column.name, value, lower, upper, method, doubted | column.kept)


def _between(values: Doubles, doubted: Bools) -> Bools:
    """Cells whose nearest readings on both sides are doubted, bool [C, N]: if those are right, an estimate is not."""
    if not doubted.any():
        return doubted
    steps = np.arange(values.shape[1])
    known = np.isfinite(values)
    before = np.maximum.accumulate(np.where(known, steps, 0), axis=1)
    after = np.minimum.accumulate(np.where(known, steps, len(steps) - 1)[:, ::-1], axis=1)[:, ::-1]
    shut: Bools = ~known & np.take_along_axis(doubted, before, 1) & np.take_along_axis(doubted, after, 1)
    return shut


def _doubts(cells: Cells, columns: Sequence[FilledColumn]) -> dict[str, Doubts]:
    """The doubted readings by sensor."""
    found: dict[str, Doubts] = {}
    for column, done in zip(cells.columns, columns, strict=True):
        for sensor, rows in by_code(column.sensor, done.doubted & ~column.kept):
            name = cells.sensors[sensor]
            first = Doubts(0, float(column.value[rows[0]]), int(cells.times_ms[rows[0]]))
            before = found.get(name, first)
            found[name] = replace(before, count=before.count + len(rows))
    return found


def _reason(left: dict[str, int]) -> str:
    reasons = [reason for reason, count in left.items() if count]
    return " or ".join(reasons) or "no estimate"


def require_insertable(cells: Cells, placed: Series | Outcome) -> None:
    """Require that rows can be inserted for the steps that have none.

    Args:
        cells: cells of the table.
        placed: rows of the table on their grids.

    Raises:
        SettingsError: each row holds one reading, steps differ in length, the rows of a group are not in order of time,
            or the rows to insert far exceed those of the table.
    """
    if cells.long:
        raise SettingsError("rows can be inserted where each row holds all sensors, not where it holds one reading")
    if not placed.even:
        raise SettingsError("rows can be inserted where steps have one length, which months and years have not")
    if any((np.diff(grid.rows[grid.rows >= 0]) < 0).any() for grid in placed.grids):
        raise SettingsError("rows can be inserted where the rows of a group are in order of time, which these are not")
    if placed.uneven is not None:
        found = placed.uneven
        where = f" of {cells.groups[found.group]!r}" if len(cells.groups) > 1 else ""
        raise SettingsError(
            f"--insert-rows expects rows{where} that are multiples of {duration(found.step_ms)} apart, found "
            f"{found.count:,} of {found.of:,} distances that are not: fill the file without --insert-rows, or divide "
            "it where its step changes"
        )
    absent = sum(grid.empty for grid in placed.grids[: 1 if _by_column(cells) else None])
    most = max(_FEW, _MOST * len(cells.times_ms))
    if absent > most:
        raise SettingsError(
            f"--insert-rows expects to insert at most {most:,} rows into {len(cells.times_ms):,}, found {absent:,} "
            f"steps of {duration(placed.grids[0].step_ms)} without a row: correct the times, or fill the file without "
            "--insert-rows"
        )


def new_rows(cells: Cells, outcome: Outcome) -> tuple[NewRows, Ints]:
    """The missing rows of a table, each below the row before it, and the codes of their groups.

    Raises:
        SettingsError: see `require_insertable`.
    """
    require_insertable(cells, outcome)
    by_column = _by_column(cells)
    below, times, values, half, codes = [], [], [], [], []
    for code, (rows, grid) in enumerate(zip(outcome.members, outcome.grids, strict=True)):
        if by_column and code:
            break
        dated = rows[grid.rows >= 0]
        steps = grid.rows[grid.rows >= 0]
        absent = np.setdiff1d(np.arange(grid.steps), steps)
        before = np.searchsorted(steps, absent, side="right") - 1
        # Counted from the row above: jittering stamps drift away from the grid.
        times.append(cells.times_ms[dated[before]] + (absent - steps[before]) * grid.step_ms)
        below.append(dated[before])
        codes.append(np.full(len(absent), code))
        found = [outcome.result.groups[int(each.group[0]) if by_column else code] for each in cells.columns]
        at = [(int(each.sensor[0]), absent) for each in cells.columns]
        values.append(np.stack([each.values[cell] for each, cell in zip(found, at, strict=True)]))
        half.append(np.stack([(each.upper[cell] - each.lower[cell]) / 2 for each, cell in zip(found, at, strict=True)]))
    place = np.concatenate(below)
    order = np.argsort(place, kind="stable")
    numbers = (np.concatenate(each, axis=1)[:, order] for each in (values, half))
    new = NewRows(place[order], np.concatenate(times)[order], *numbers)
    return new, np.concatenate(codes)[order]


def _by_column(cells: Cells) -> bool:
    """Whether each row holds all groups."""
    return any(column.group[0] != cells.columns[0].group[0] for column in cells.columns if len(column.group))
