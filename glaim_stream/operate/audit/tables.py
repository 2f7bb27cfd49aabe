"""The tables of one partition as they are sorted on disk by group and step: readings, rows and outage events."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from glaim_stream.core.readings import Readings
from glaim_stream.operate.audit.arrivals import Arrivals, arrivals_of
from glaim_stream.operate.audit.keys import Bools, Ints
from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.operate.audit.output_rows import OutputRows
from glaim_stream.operate.sorting import Rows

READING = np.dtype(
    [
        ("group", "<i4"), ("sensor", "<i4"), ("event_time_ms", "<i8"), ("value", "<f8"), ("offset", "<i8"),
        ("position", "<i4"), ("quality", "i1"), ("produced_ms", "<i8"), ("requeued", "?"), ("step", "<i8"),
        ("open_from", "<i8"), ("lettered", "?"),
    ]
)  # fmt: skip
ROW = np.dtype(
    [
        ("group", "<i4"), ("sensor", "<i4"), ("step", "<i8"), ("value", "<f8"), ("observed", "?"), ("final", "?"),
        ("method", "i1"), ("gap_age", "<i4"), ("revision", "<i4"), ("event_time_ms", "<i8"), ("quality", "i1"),
        ("once", "?"), ("version", "<i4"),
    ]
)  # fmt: skip
OUTAGE = np.dtype([("group", "<i4"), ("step", "<i8"), ("ts_ms", "<i8"), ("kind", "<i4")])


def packed_readings(readings: Readings, step: Ints, open_from: Ints, lettered: Bools) -> Rows:
    """Readings as rows of READING.

    Args:
        readings: n readings.
        step: step of each reading, int64 [n].
        open_from: first open step when each reading came, int64 [n]; ignored for dead letters.
        lettered: True for dead letters, bool [n].
    """
    return _packed(readings, READING, step=step, open_from=open_from, lettered=lettered)


def packed_rows(rows: OutputRows) -> Rows:
    """Output rows as rows of ROW."""
    return _packed(rows, ROW)


def unpacked_readings(
    table: Rows, closed_at_commit: Ints, committed: int, columns: ModelColumns
) -> tuple[Arrivals, Readings]:
    """The readings that a worker took, and those that became dead letters."""
    readings = Readings(**_columns(table, Readings, columns))
    lettered = table["lettered"]
    open_from = table["open_from"][~lettered]
    return arrivals_of(readings.where(~lettered), open_from, closed_at_commit, committed, columns), readings.where(
        lettered
    )


def unpacked_rows(table: Rows, columns: ModelColumns) -> OutputRows:
    """Output rows from rows of ROW."""
    return OutputRows(**_columns(table, OutputRows, columns))


def _packed(given: Readings | OutputRows, dtype: np.dtype[np.void], **more: Any) -> Rows:
    out = np.empty(len(given), dtype)
    for name in dtype.names or ():
        out[name] = more[name] if name in more else getattr(given, name)
    return out


def _columns(table: Rows, kind: type[Readings | OutputRows], columns: ModelColumns) -> dict[str, Any]:
    out = {each.name: np.ascontiguousarray(table[each.name]) for each in fields(kind) if each.name != "model"}
    # A table of nothing may come before the first group.
    model = columns.model_of_group()[out["group"]] if len(table) else np.empty(0, np.int64)
    return {"model": model.astype(np.int32), **out}
