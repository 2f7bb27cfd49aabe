"""Inserts rows for the steps of a table that have none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError
from glaim_stream.files import Cells, Series, duration
from glaim_stream.tables.cells import Outcome
from glaim_stream.tables.columns import NewRows

Ints = NDArray[np.int64]

# Most new rows for each row of the file. files.grid has the same limit: where fewer than a tenth of the steps have
# rows, a time or the step is wrong, or the file has too few readings to fill the rest.
_MOST = 10
_FEW = 1_000  # new rows that any file may get: a person can check them


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
