"""Finds the form of a file of readings and reads it: `read` returns a `Reading` with its `FileForm`."""

from glaim_stream.files.content import plain
from glaim_stream.files.form import FileForm, NumberForm, Reading, duration
from glaim_stream.files.grid import Grid, put, step_of
from glaim_stream.files.judged import JudgedReadings, Told
from glaim_stream.files.kinds import is_number, is_text
from glaim_stream.files.layout import found_times, layout_of
from glaim_stream.files.order import order_of
from glaim_stream.files.plain_long import PlainLong, plain_long
from glaim_stream.files.quality import names_quality, qualities
from glaim_stream.files.read import read
from glaim_stream.files.sentinels import note
from glaim_stream.files.series import (
    SHORTEST_MONTH_MS,
    Cells,
    Ints,
    ReadingColumn,
    Series,
    StrayRows,
    Uneven,
    as_logged,
    by_code,
    cells_of,
    name_of_file,
    series_of,
    without_stray_rows,
)
from glaim_stream.files.table import OF_ROWS, read_table, refusal
from glaim_stream.files.times import ORDERS

__all__ = [
    "OF_ROWS",
    "ORDERS",
    "SHORTEST_MONTH_MS",
    "Cells",
    "FileForm",
    "Grid",
    "Ints",
    "JudgedReadings",
    "NumberForm",
    "PlainLong",
    "Reading",
    "ReadingColumn",
    "Series",
    "StrayRows",
    "Told",
    "Uneven",
    "as_logged",
    "by_code",
    "cells_of",
    "duration",
    "found_times",
    "is_number",
    "is_text",
    "layout_of",
    "name_of_file",
    "names_quality",
    "note",
    "order_of",
    "plain",
    "plain_long",
    "put",
    "qualities",
    "read",
    "read_table",
    "refusal",
    "series_of",
    "step_of",
    "without_stray_rows",
]
