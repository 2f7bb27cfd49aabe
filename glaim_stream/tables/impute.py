"""`impute`: holes of tables of pandas, polars, pyarrow and numpy, filled in memory.

The table that comes back is of the same kind, with the same rows, order, index, types and attributes. Columns of
fractions are filled, and columns of whole numbers that have holes, by whole numbers; all other columns pass through.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import text_of_ms, zone_of
from glaim_stream.files import counted
from glaim_stream.tables.apply import apply
from glaim_stream.tables.fit import fit
from glaim_stream.tables.fitted import Fitted
from glaim_stream.tables.frame import frame_of
from glaim_stream.tables.groups import Group
from glaim_stream.tables.layout import Flags, Layout, fills_of, groups_of, layout_of, parts_of


class HolesLeft(UserWarning):
    """Holes were left null; the message states how many and why."""


class StrayTimes(UserWarning):
    """Rows were left as they are, because their times are far from all others; the message names the first one."""


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
) -> Any:
    """Return a table with its holes filled, of the same kind; the table itself is unchanged.

    Args:
        table: a data frame or series of pandas or polars (lazy ones too), a table or record batch of pyarrow, or an
            array of numpy.
        time: name of the column of times. By default the index, or the only column of times; rows without times are
            even steps. False takes the rows as even steps in any case.
        group: name of one or many columns, or levels of the index, that tell the series of a long table apart.
        columns: names of the columns to fill. By default those of fractions, and those of whole numbers with holes.
        max_gap: longest gap in steps that is filled. By default gaps of up to 48 steps are filled, and in longer ones
            the cells about which the other columns say something.
        step_ms: distance of two steps; found from the times by default.
        timezone: zone of the habits of the day. By default that of the times.
        plausibility: whether readings far from those around them are kept out of the fill of others. They come back as
            they are in any case.

    Warns:
        HolesLeft: some holes were left null.
        StrayTimes: rows are left as they are, because their times are far from all others.

    Raises:
        TableError, TableTypeError: the table cannot be filled as stated.
    """
    frame = frame_of(table)
    if not frame.rows:
        return frame.filled({})
    layout = layout_of(frame, Flags(time, group, columns))
    parts = parts_of(frame, layout, step_ms)
    groups = groups_of(parts, plausibility=plausibility)
    filled = apply(fit_groups(layout, groups, timezone), groups, max_gap=max_gap)
    fills, left = fills_of(frame, layout, parts, filled)
    out = frame.filled(fills)
    warn_of_stray_rows(layout)
    warn_of_holes(left)
    return out


def fit_groups(layout: Layout, groups: Sequence[Group], timezone: str | None) -> Fitted:
    """Find out how to fill the groups of a table; see `impute` for the zone."""
    return fit(
        groups,
        sensors=[str(name) for name in layout.sensors],
        timezone=_zone(timezone, layout),
    )


def warn_of_holes(left: Counter[str]) -> None:
    """Warn of holes that were left null, if there are any."""
    if left:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in left.items())
        warnings.warn(f"{left.total():,} holes were left null: {reasons}", HolesLeft, stacklevel=3)


def warn_of_stray_rows(layout: Layout) -> None:
    """Warn of rows whose times are far from all others, if there are any."""
    if layout.times is not None and layout.stray is not None:
        found = counted(layout.times.ms, layout.stray)
        if found is not None:
            warnings.warn(found.said(text_of_ms(found.time_ms), counted_from=0), StrayTimes, stacklevel=3)


def _zone(stated: str | None, layout: Layout) -> str:
    if stated is not None:
        zone_of(stated)
        return stated
    zone = layout.times.zone if layout.times is not None else None
    try:
        zone_of(zone or "UTC")
    except SettingsError:  # an offset such as +01:00 is no zone of habits
        return "UTC"
    return zone or "UTC"
