"""Finds the columns of times, groups and sensors of a table, and places its rows on even grids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import listed
from glaim_stream.core.times import NO_TIME
from glaim_stream.core.vocabulary import Method
from glaim_stream.files import Grid, have_own_clocks, step_of, stray_rows
from glaim_stream.tables.errors import TableError, TableTypeError
from glaim_stream.tables.frame import Fill, Frame, Times, require_unique
from glaim_stream.tables.groups import FilledGroup, Group

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

ROW_MS = 60_000  # step of rows without times
UNDATED = "in a row without a time"
STRAY = "in a row whose time is far from all others"
_ROWS = -1  # group number of rows without a group

Names = Hashable | Sequence[Hashable]


@dataclass(frozen=True)
class Flags:
    """A caller's statements about a table; None: detected.

    time: name of the column of times; False takes the rows as even steps.
    group: name of one or many columns, or levels of the index, that distinguish the series of a long table.
    columns: names of the columns to fill.
    """

    time: Any = None
    group: Any = None
    columns: Sequence[Any] | None = None


@dataclass(frozen=True)
class Layout:
    """Roles of a table's columns.

    sensors: columns to fill, and to fill others from.
    times: times of the rows; None where rows are even steps.
    group: number of each row's group, int64 [rows].
    group_names: names of groups by number.
    stray: rows whose times are far from all others, bool [rows]; None without any.
    """

    sensors: tuple[Any, ...]
    times: Times | None
    group: Ints
    group_names: tuple[str, ...]
    stray: Bools | None = None


@dataclass(frozen=True)
class Part:
    """A group of a table's rows, and their grid."""

    group: Group
    grid: Grid
    rows: Ints


def layout_of(frame: Frame, flags: Flags) -> Layout:
    """Find the roles of a table's columns.

    Raises:
        TableError, TableTypeError: a stated column is absent or has the wrong type, or two columns have times.
    """
    require_unique(frame.names)
    times, time_name = _times(frame, flags.time)
    group_columns = _group_columns(frame, flags.group, times)
    taken = {time_name, *group_columns}
    if flags.columns is None:
        sensors = tuple(name for name in frame.names if name not in taken and _is_sensor(frame, name))
    else:
        sensors = tuple(flags.columns)
        for name in sensors:
            require_column(frame, name)
            if frame.number(name) is None:
                raise TableTypeError(f"column {name!r} holds no numbers, so it cannot be filled")
    group, names = _groups(frame, group_columns)
    return Layout(sensors, times, group, names, _stray(times, group, len(names)))


def require_column(frame: Frame, name: Any) -> None:
    """Require that a table has a column.

    Raises:
        TableError: the column is absent.
    """
    if name not in frame.names:
        raise TableError(f"expected a column {name!r}, found {listed(frame.names)}")


def _is_sensor(frame: Frame, name: Any) -> bool:
    """Whether a column holds readings. Whole numbers without a hole may be years, ids or flags; they need no fill."""
    column = frame.number(name)
    return column is not None and (not column.whole or bool(np.isnan(column.values).any()))


def _times(frame: Frame, time: Any) -> tuple[Times | None, Any]:
    if time is False:
        return None, None
    if time is None:
        found = frame.index_times()
        if found is not None:
            return found, None
        timed = [name for name in frame.names if frame.times(name) is not None]
        if len(timed) > 1:
            raise TableError(f"expected one column of times, found {listed(timed)}: state one by `time`")
        if timed:
            return frame.times(timed[0]), timed[0]
        for name in frame.names:
            found = _iso_times(frame, name)
            if found is not None:
                return found, name
        return None, None
    require_column(frame, time)
    found = frame.times(time) or _iso_times(frame, time)
    if found is None:
        raise TableTypeError(
            f"column {time!r} holds no times: expected a column of times, or of text such as 2017-02-01 05:00:00"
        )
    return found, time


def _iso_times(frame: Frame, name: Any) -> Times | None:
    """Times of a column of ISO 8601 text; either all cells state a zone, or none does."""
    cells = frame.texts(name)
    if cells is None:
        return None
    ms, zones = np.full(len(cells), NO_TIME, np.int64), set()
    for row, cell in enumerate(cells):
        if cell is None or cell == "":
            continue
        if not isinstance(cell, str) or len(cell) < len("2017-02-01"):
            return None
        try:
            moment = datetime.fromisoformat(cell)
        except ValueError:
            return None
        zones.add(moment.tzinfo is not None)
        since = moment - datetime(1970, 1, 1, tzinfo=moment.tzinfo)
        offset = moment.utcoffset()
        if offset is not None:
            since -= offset
        ms[row] = (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    return Times(ms) if len(zones) == 1 else None


def _group_columns(frame: Frame, group: Any, times: Times | None) -> list[Any]:
    if group is not None:
        stated = list(group) if isinstance(group, (list, tuple)) and group not in frame.names else [group]
        known = [*frame.names, *frame.index_groups()]
        for name in stated:
            if name not in known:
                raise TableError(f"expected a column {name!r} to group by, found {listed(known)}")
        return stated
    if frame.index_groups():
        return frame.index_groups()
    if times is None:
        return []
    dated = times.ms != NO_TIME
    if not dated.any():
        return []
    ms = times.ms[dated]
    shared = len(np.unique(ms)) <= len(ms) / 2
    # A text column names the series in two cases: at least half of the rows share their time and the column
    # distinguishes all rows of a time, or each of its names has a clock of its own.
    telling = []
    for name in frame.names:
        if frame.number(name) is None and frame.times(name) is None:
            labels = [label for label, known in zip(frame.labels(name), dated.tolist(), strict=True) if known]
            codes: dict[Any, int] = {}
            code = np.array([codes.setdefault(label, len(codes)) for label in labels], np.int64)
            if len(codes) > max(2, len(ms) / 2):
                continue
            if len(set(zip(labels, ms.tolist(), strict=True))) == len(ms) if shared else have_own_clocks(ms, code):
                telling.append(name)
    if len(telling) > 1:
        raise TableError(f"expected one column that names the series, found {listed(telling)}: state one by `group`")
    return telling


def _groups(frame: Frame, columns: Sequence[Any]) -> tuple[Ints, tuple[str, ...]]:
    if not columns:
        return np.zeros(frame.rows, np.int64), ("",)
    labels = [[_text(cell) for cell in frame.labels(name)] for name in columns]
    names = [" / ".join(parts) for parts in zip(*labels, strict=True)]
    numbers: dict[str, int] = {}
    group = np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
    return group, tuple(numbers)


def _text(cell: Any) -> str:
    missing = cell is None or cell != cell or str(cell) in ("NaT", "<NA>")
    return "" if missing else str(cell)


def _stray(times: Times | None, group: Ints, groups: int) -> Bools | None:
    if times is None:
        return None
    found = stray_rows(times.ms, [np.flatnonzero(group == number) for number in range(groups)])
    return found if found.any() else None


def parts_of(frame: Frame, layout: Layout, step_ms: int | None) -> list[Part]:
    """Place a table's rows on even grids, one per group; rows without a time or with a stray one are left out.

    Args:
        frame: table with the rows.
        layout: roles of the table's columns.
        step_ms: time between two steps; found from the times by default.
    """
    values = np.empty((frame.rows, len(layout.sensors)))
    for place, name in enumerate(layout.sensors):
        column = frame.number(name)
        if column is None:
            raise TableTypeError(f"column {name!r} held numbers in the fit, and holds none now")
        values[:, place] = column.values
    dated = np.ones(frame.rows, np.bool_) if layout.times is None else layout.times.ms != NO_TIME
    if layout.times is not None and frame.rows and not dated.any():
        raise TableError(f"expected rows with a time, found none in {frame.rows:,} rows")
    if layout.stray is not None:
        dated &= ~layout.stray
    rows = [np.flatnonzero((layout.group == number) & dated) for number in range(len(layout.group_names))]
    if layout.times is not None and step_ms is None:
        step_ms = _step(layout.times, rows)
    parts = []
    for name, mine in zip(layout.group_names, rows, strict=True):
        if len(mine):
            grid = Grid.of_rows(len(mine)) if layout.times is None else Grid.of(layout.times.ms[mine], step_ms)
            parts.append(Part(Group(name, grid.times_ms, grid.gridded(values[mine])), grid, mine))
    return parts


def groups_of(parts: Sequence[Part], *, plausibility: bool) -> list[Group]:
    """Return the groups of a table's parts; with `plausibility`, doubtful readings are marked."""
    return [part.group.judged() if plausibility else part.group for part in parts]


def _step(times: Times, rows: Sequence[Ints]) -> int:
    """The step of all groups; an arbitrary one if no group has two different times."""
    apart = [times.ms[each] for each in rows if len(each) and times.ms[each].min() < times.ms[each].max()]
    return step_of(apart) if apart else ROW_MS


def fills_of(
    frame: Frame, layout: Layout, parts: Sequence[Part], filled: Sequence[FilledGroup]
) -> tuple[dict[Any, Fill], Counter[str]]:
    """Return the fills of a table's holes, and the number of holes left, by reason.

    A hole whose step has a reading in another row gets that reading.
    """
    left: Counter[str] = Counter()
    answers = np.full((frame.rows, len(layout.sensors)), np.nan)
    for part, group in zip(parts, filled, strict=True):
        answers[part.rows] = part.grid.of_step(group.values, np.nan)
        left.update(group.left)
    dated = np.isin(np.arange(frame.rows), np.concatenate([*(part.rows for part in parts), np.zeros(0, np.int64)]))
    stray = np.zeros(frame.rows, np.bool_) if layout.stray is None else layout.stray
    fills = {}
    for place, name in enumerate(layout.sensors):
        column = frame.number(name)
        assert column is not None
        holes = np.isnan(column.values)
        left.update({UNDATED: int((holes & ~dated & ~stray).sum()), STRAY: int((holes & stray).sum())})
        made = holes & np.isfinite(answers[:, place])
        if made.any():
            fills[name] = Fill(made, answers[:, place])
    return fills, +left


def columns_of(
    frame: Frame, layout: Layout, parts: Sequence[Part], filled: Sequence[FilledGroup]
) -> Mapping[Any, tuple[Doubles, Doubles, NDArray[np.uint8], NDArray[np.bool_]]]:
    """Return each sensor's lower and upper bounds, methods and doubts [rows]; NaN and NONE in rows off the grids."""
    lower, upper = (np.full((frame.rows, len(layout.sensors)), np.nan) for _ in range(2))
    method = np.full((frame.rows, len(layout.sensors)), Method.NONE, np.uint8)
    doubtful = np.zeros(method.shape, np.bool_)
    for part, group in zip(parts, filled, strict=True):
        lower[part.rows] = part.grid.of_step(group.lower, np.nan)
        upper[part.rows] = part.grid.of_step(group.upper, np.nan)
        method[part.rows] = part.grid.of_step(group.method, np.uint8(Method.NONE))
        doubtful[part.rows] = part.grid.of_step(group.doubted, np.False_)
    arrays = lower, upper, method, doubtful & (method == Method.OBSERVED)
    return {name: tuple(each[:, place] for each in arrays) for place, name in enumerate(layout.sensors)}  # type: ignore[misc]
