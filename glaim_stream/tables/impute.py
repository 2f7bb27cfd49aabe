"""`impute`: fills the holes of tables of pandas, polars, pyarrow and numpy in memory.

The result has the same kind, rows, order, index, types and attributes as the table. Columns of fractions are filled.
Columns of whole numbers are filled with whole numbers if they have holes. All other columns pass through.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import text_of_ms, zone_of
from glaim_stream.files import StrayRows
from glaim_stream.tables.cells import fill_cells
from glaim_stream.tables.columns import FilledColumn
from glaim_stream.tables.frame import Fill, frame_of
from glaim_stream.tables.layout import Flags, Placed, placed


class HolesLeft(UserWarning):
    """Holes were left null; the message states how many and why."""


class UnusedCells(UserWarning):
    """Cells are neither filled nor used, or numbers are taken for no value; the message names columns and counts."""


class StrayTimes(UserWarning):
    """Rows were left unchanged because their times are far from all others; the message names the first one."""


def impute(
    table: Any,
    *,
    time: Any = None,
    group: Any = None,
    columns: Sequence[Any] | None = None,
    max_gap: int | None = None,
    step_ms: int | None = None,
    timezone: str | None = None,
    plausibility: bool = True,
    missing: Sequence[str] | None = None,
) -> Any:
    """Return a table of the same kind with its holes filled; the table itself is unchanged.

    The cells are judged as those of a file. A number far outside its column that is shaped like one for a missing value
    (-999) is a hole. Readings that a column of quality marks as bad, and numbers that may be error codes, stay and fill
    no other cell. In rows with times, no cell is a hole between the readings of a sensor that is read less often than
    the table has rows, or in a row of an event; holes of rows whose times a clock repeats are left.

    Args:
        table: data frame or series of pandas or polars (lazy ones too), table or record batch of pyarrow, or array of
            numpy.
        time: name of the column of times. The default is the index or the only column of times; rows without times are
            even steps. False takes the rows as even steps in any case.
        group: name of one or many columns, or levels of the index, that distinguish the series of a long table.
        columns: names of the columns to fill. The default is all of fractions, and those of whole numbers with holes.
        max_gap: longest filled gap in steps. By default gaps of up to 48 steps are filled, and longer ones whose error
            was small on hidden stretches as long.
        step_ms: time between two steps; found from the times by default.
        timezone: time zone of daily habits. The default is the zone of the times.
        plausibility: keep readings far from their neighbours out of the fill of others. They are returned unchanged in
            any case.
        missing: numbers that mean a missing value, as text: `"-1"` in all columns, `"flow=-1"` in one column or sensor.
            `"flow="`: no other number does in that column. `"quality=4"`: a mark of bad readings.

    Warns:
        HolesLeft: some holes were left null.
        UnusedCells: columns hold infinite cells, numbers as text, numbers that mean a missing value or may, readings
            that are marked as bad, or empty cells where no reading is expected.
        StrayTimes: rows are left unchanged because their times are far from all others.

    Raises:
        TableError, TableTypeError: the table cannot be filled as stated.
    """
    frame = frame_of(table)
    if not frame.rows:
        return frame.filled({})
    found = placed(frame, Flags(time, group, columns, missing or ()), step_ms)
    outcome = fill_cells(
        found.cells, found.series, max_gap=max_gap, timezone=zone_for(timezone, found), plausibility=plausibility,
        beside=True,
    )  # fmt: skip
    out = frame.filled(fills_of(found, outcome.columns))
    warn_of_stray_rows(found.stray)
    warn_of_unused(found)
    warn_of_holes(found.left + Counter(outcome.left))
    return out


def fills_of(found: Placed, columns: Sequence[FilledColumn]) -> dict[Any, Fill]:
    """Return the fills of a table's holes by column."""
    fills = {}
    for name, cells, column in zip(found.names, found.cells.columns, columns, strict=True):
        made = cells.hole & np.isfinite(column.value)
        if made.any():
            fills[name] = Fill(made, column.value)
    return fills


def warn_of_holes(left: Counter[str]) -> None:
    """Warn of holes that were left null, if there are any."""
    if left:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in left.items())
        warnings.warn(f"{left.total():,} holes were left null: {reasons}", HolesLeft, stacklevel=3)


def warn_of_unused(found: Placed) -> None:
    """Warn of cells that are neither filled nor used, by column, and of what was taken for which, if there are any."""
    if found.unused:
        each = "; ".join(f"{str(name)!r}: {what}" for name, what in found.unused.items())
        warnings.warn(f"cells stay as they are, neither filled nor used: {each}", UnusedCells, stacklevel=3)
    if found.notes:
        warnings.warn("; ".join(found.notes), UnusedCells, stacklevel=3)


def warn_of_stray_rows(found: StrayRows | None) -> None:
    """Warn of rows whose times are far from all others, if there are any."""
    if found is not None:
        warnings.warn(found.said(text_of_ms(found.time_ms), counted_from=0), StrayTimes, stacklevel=3)


def zone_for(stated: str | None, found: Placed) -> str:
    """The time zone of daily habits: the stated one, or that of the table's times."""
    if stated is not None:
        zone_of(stated)
        return stated
    try:
        zone_of(found.zone or "UTC")
    except SettingsError:  # an offset such as +01:00 is no time zone
        return "UTC"
    return found.zone or "UTC"
