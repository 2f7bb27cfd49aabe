"""Counts the cells of each sensor by day, in a database that may be larger than memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from glaim_stream.core.vocabulary import METHODS, Method
from glaim_stream.operate.completeness.days import Days
from glaim_stream.operate.completeness.figures import FIGURES, FILLED_BY, SensorDays
from glaim_stream.operate.database import Database

# The known cells of each sensor, each once; the other cells of its span have no row. `method` is Method.NONE for a null
# cell, `has_row` is false for a cell that is only known to be late, and `delay_ms` is NaN where it is unknown.
CELLS = """CREATE TABLE cells(
    series INTEGER, cell BIGINT, method TINYINT, good BOOLEAN, late BOOLEAN, too_late BOOLEAN, has_row BOOLEAN,
    delay_ms DOUBLE)"""
FLOOR = "CREATE OR REPLACE MACRO floor_div(a, b) AS (a - ((a % b) + b) % b) // b"

# The days of each sensor's span. The first cell of a day is the first that begins in it: one across midnight counts
# where it begins.
_DUE = """CREATE OR REPLACE TABLE due AS SELECT * FROM (
    SELECT series, day,
        greatest(first, least(until, -floor_div(origin_ms - begin_ms, cell_ms))) AS begin,
        greatest(first, least(until, -floor_div(origin_ms - until_ms, cell_ms))) AS stop
    FROM spans, days) WHERE begin < stop"""
_FILLED = ", ".join(f"count(*) FILTER (has_row AND method = {METHODS.index(name)}) AS {name}" for name in FILLED_BY)
# The sums of the days that have cells. `gap` is the longest between two readings that the sensor has one after the
# other, `day_gap` the same where both are of the day.
_COUNTED = f"""CREATE OR REPLACE TABLE counted AS
    SELECT series, day,
        count(*) FILTER (arrived) AS arrived, count(*) FILTER (arrived AND good) AS good,
        count(*) FILTER (late) AS late, count(*) FILTER (too_late) AS too_late, {_FILLED},
        count(*) FILTER (has_row) AS with_row, count(*) FILTER (has_row AND method = {Method.NONE:d}) AS "null",
        count(*) FILTER (NOT isnan(delay_ms)) AS delays, sum(delay_ms) FILTER (NOT isnan(delay_ms)) AS delay_ms,
        min(cell) FILTER (arrived) AS earliest, max(cell) FILTER (arrived) AS latest,
        max(cell - before - 1) FILTER (arrived) AS gap,
        max(cell - before - 1) FILTER (arrived AND before >= begin) AS day_gap
    FROM (
        SELECT *, method = {Method.OBSERVED:d} AS arrived,
            lag(cell) OVER (PARTITION BY series, method = {Method.OBSERVED:d} ORDER BY cell) AS before
        FROM (SELECT cells.*, day, begin, stop FROM cells ASOF JOIN due
            ON cells.series = due.series AND cells.cell >= due.begin) WHERE cell < stop)
    GROUP BY series, day"""
_SUMS = ", ".join(
    f"coalesce({name}, 0) AS {name}"
    for name in ("arrived", "good", "late", "too_late", *FILLED_BY, "delays", "delay_ms")
)
# Of several arguments, `greatest` leaves out those that are null.
_FIGURES = f"""
    SELECT series, day, stop - begin AS expected, {_SUMS}, expected - coalesce(with_row, 0) AS without_row,
        without_row + coalesce("null", 0) AS "null",
        coalesce(greatest(day_gap, earliest - begin, stop - 1 - latest), expected) AS longest_gap
    FROM due LEFT JOIN counted USING (series, day) ORDER BY series, day"""
_GAPS = """
    SELECT series, coalesce(greatest(max(gap), min(earliest) - first, until - 1 - max(latest)), until - first)
    FROM spans LEFT JOIN counted USING (series) GROUP BY series, first, until"""


@dataclass(frozen=True, slots=True)
class Span:
    """Cells `first` to `end - 1` of a sensor; cell k begins at `origin_ms + k * cell_ms`."""

    group: str
    sensor: str
    origin_ms: int
    cell_ms: int
    first: int
    end: int

    @classmethod
    def between(cls, group: str, sensor: str, first_ms: int, end_ms: int, cell_ms: int, *, origin_ms: int = 0) -> Span:
        """The cells that lie completely in a stretch of time."""
        first = -((origin_ms - first_ms) // cell_ms)
        return cls(group, sensor, origin_ms, cell_ms, first, max(first, (end_ms - origin_ms) // cell_ms))


def set_spans(database: Database, spans: Mapping[int, Span]) -> None:
    """Make the table of spans, by the number of each sensor's series."""
    database.run(
        FLOOR,
        "CREATE OR REPLACE TABLE spans(series INTEGER, origin_ms BIGINT, cell_ms BIGINT, first BIGINT, until BIGINT)",
    )
    places = [(number, each.origin_ms, each.cell_ms, each.first, each.end) for number, each in spans.items()]
    columns = np.array(places, np.int64).reshape(-1, 5).T
    database.add("spans", dict(zip(("series", "origin_ms", "cell_ms", "first", "until"), columns, strict=True)))


def counted(database: Database, spans: Mapping[int, Span], days: Days) -> tuple[list[SensorDays], int]:
    """Count the table CELLS.

    Args:
        database: cells in any order; spans by `set_spans`.
        spans: span of each sensor by the number of its series.
        days: days that hold every span.

    Returns:
        The figures of each sensor with expected cells, and the number of late cells outside of their sensor's span.
    """
    database.run("CREATE OR REPLACE TABLE days(day INTEGER, begin_ms BIGINT, until_ms BIGINT)")
    database.add("days", {"day": np.arange(len(days)), "begin_ms": days.starts_ms[:-1], "until_ms": days.starts_ms[1:]})
    database.run(_DUE, _COUNTED)
    found = database.read(_FIGURES)
    figures = np.empty(len(found["day"]), FIGURES)
    for name in FIGURES.names or ():
        figures[name] = found[name]
    longest = dict(database.rows(_GAPS))
    ends = np.flatnonzero(np.diff(found["series"])) + 1
    sensors = []
    for start, part in zip([0, *ends.tolist()], np.split(figures, ends), strict=True):
        if len(part):
            series = int(found["series"][start])
            span = spans[series]
            sensors.append(SensorDays(span.group, span.sensor, span.cell_ms, part, longest[series]))
    ((late,),) = database.rows("SELECT count(*) FROM cells SEMI JOIN spans USING (series) WHERE late")
    ((inside,),) = database.rows("SELECT coalesce(sum(late), 0) FROM counted")
    return sensors, int(late - inside)
