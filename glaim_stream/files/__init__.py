"""Finds out the form of a file of readings once, and reads it: `read` returns a `Reading` with its `FileForm`."""

from glaim_stream.files import roles
from glaim_stream.files.clocks import have_own_clocks
from glaim_stream.files.content import plain
from glaim_stream.files.filled_rows import OF_ROWS, refusal
from glaim_stream.files.form import FileForm, NumberForm, Reading, duration
from glaim_stream.files.grid import Grid, step_of
from glaim_stream.files.kinds import is_number, is_text
from glaim_stream.files.read import read
from glaim_stream.files.sentinels import note, sentinels
from glaim_stream.files.series import (
    SHORTEST_MONTH_MS,
    Cells,
    Ints,
    ReadingColumn,
    Series,
    by_code,
    cells_of,
    series_of,
    without_stray_rows,
)
from glaim_stream.files.stamps import stamps
from glaim_stream.files.stray_rows import StrayRows, counted, stray_rows
from glaim_stream.files.table import read_table
from glaim_stream.files.times import ORDERS, candidates, said, times_of
from glaim_stream.files.uneven import Uneven
from glaim_stream.files.zones import utc, zone_column

__all__ = [
    "OF_ROWS",
    "ORDERS",
    "SHORTEST_MONTH_MS",
    "Cells",
    "FileForm",
    "Grid",
    "Ints",
    "NumberForm",
    "Reading",
    "ReadingColumn",
    "Series",
    "StrayRows",
    "Uneven",
    "by_code",
    "candidates",
    "cells_of",
    "counted",
    "duration",
    "have_own_clocks",
    "is_number",
    "is_text",
    "note",
    "plain",
    "read",
    "read_table",
    "refusal",
    "roles",
    "said",
    "sentinels",
    "series_of",
    "stamps",
    "step_of",
    "stray_rows",
    "times_of",
    "utc",
    "without_stray_rows",
    "zone_column",
]
