"""The completeness of a user's file: its readings on an even grid, as they are or with the holes filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError, unknown_name
from glaim_stream.core.times import NO_TIME
from glaim_stream.core.vocabulary import DOUBTFUL, METHODS, Method
from glaim_stream.files import Cells, ReadingColumn, Series, by_code, duration, series_of
from glaim_stream.operate.completeness.counts import CELLS, Span, counted, set_spans
from glaim_stream.operate.completeness.days import Days
from glaim_stream.operate.completeness.figures import SensorDays
from glaim_stream.operate.completeness.report import CompletenessReport, worst_first
from glaim_stream.operate.database import database
from glaim_stream.tables import Group, Progress, UserFile, beside, cells_of, fill_cells, open_file

_SHORTEST_MONTH_MS = 28 * 86_400_000
_OF_ROWS = {"group", "sensor", "ts", "observed", "method", "revision"}  # columns of `tail --out`
Bools = NDArray[np.bool_]
Methods = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class FileRequest:
    """The options of a report on a file.

    Attributes:
        zone: time zone of the days.
        since_ms: earliest start of a step to count, epoch ms.
        until_ms: latest end of a step to count, epoch ms.
        groups: names or shell patterns; empty for all.
        step_ms: distance of two readings; None: taken from the times.
        fill: True to fill the holes as `glaim-stream fill` does, and count them by method.
    """

    zone: tzinfo
    since_ms: int | None = None
    until_ms: int | None = None
    groups: Sequence[str] = ()
    step_ms: int | None = None
    fill: bool = False


def file_report(
    name: str, raw: bytes, request: FileRequest, *, progress: Progress | None = None, **stated: Any
) -> CompletenessReport:
    """Report on a file.

    A cell is expected at each step from the first row of its group to the last row of the file. Beside columns of
    readings, the columns of `glaim-stream fill --flags` tell which readings were filled, and by which method.

    Args:
        name: name of the file.
        raw: bytes of the file.
        request: options of the report.
        progress: receives the progress of filling.
        stated: keyword arguments of `files.read.read`.

    Raises:
        SettingsError: the file cannot be read, has no dates, holds rows of the output topic, or has no wanted group.
    """
    file = open_file(name, raw, **stated)
    file = _without_bounds(file, name, raw, stated)
    _require_readings(file)
    cells = cells_of(file)
    stated_methods = _stated_methods(file, cells)
    if stated_methods:
        if request.fill:
            raise SettingsError(f"{name}: its holes are filled, as {stated_methods[0][0]!r} states: omit --fill")
        cells = replace(cells, columns=tuple(_observed(each, stated_methods) for each in cells.columns))
    series = series_of(cells, step_ms=request.step_ms)
    if series.step_ms >= _SHORTEST_MONTH_MS:
        raise SettingsError(f"{name}: expected steps below a month, found one of {duration(series.step_ms)}")
    found = _methods(cells, series, request, progress, stated_methods, file.form.timezone)
    cells = series.expected(cells)
    methods = _with_kept(found, cells, series)
    wanted = _wanted_groups(name, cells, request.groups)
    dated = cells.times_ms[cells.times_ms != NO_TIME]
    first_ms, end_ms = int(dated.min()), int(dated.max()) + series.step_ms
    first_ms = first_ms if request.since_ms is None else max(first_ms, request.since_ms)
    end_ms = end_ms if request.until_ms is None else min(end_ms, request.until_ms)
    days = Days(request.zone, first_ms, max(end_ms, first_ms))
    sensors = _sensors(cells, series, methods, wanted, days, first_ms, end_ms)
    return CompletenessReport(
        title=name,
        source={"file": name, "step_s": series.step_ms / 1000, "rows": len(cells.times_ms)},
        timezone=str(request.zone),
        days=days,
        begin_ms=first_ms,
        end_ms=max(end_ms, first_ms),
        sensors=worst_first(sensors),
        filled=request.fill or bool(stated_methods),
        stream=False,
        notes=(f"a reading is expected every {duration(series.step_ms)}", *file.form.notes, *cells.notes),
    )


def _sensors(
    cells: Cells, series: Series, methods: Sequence[Methods], wanted: Bools, days: Days, first_ms: int, end_ms: int
) -> Sequence[SensorDays]:
    doubted: dict[int, Bools] = {}
    spans: dict[int, Span] = {}
    with database(None) as counting:
        counting.run(CELLS)
        for number, (group, sensor) in enumerate(_pairs(cells)):
            if not wanted[group]:
                continue
            grid = series.grids[group]
            if group not in doubted:
                known = series.values[group], series.doubted[group]
                doubted[group] = Group(cells.groups[group], grid.times_ms, *known).judged().doubts
            slow = series.cadence(group, sensor)
            every = max(1, slow.every)
            # In the grid's own steps: where stamps jitter it drifts apart from the times of the rows.
            origin_ms = grid.start_ms + slow.phase * series.step_ms
            spans[number] = Span.between(
                cells.groups[group], cells.sensors[sensor], max(first_ms, origin_ms), max(end_ms, origin_ms),
                every * series.step_ms, origin_ms=origin_ms,
            )  # fmt: skip
            has_row = np.zeros(grid.steps, np.bool_)
            has_row[grid.rows[grid.rows >= 0]] = True
            method = methods[group][sensor]
            has_row |= method != Method.NONE  # a step without a row may be filled all the same
            good = np.isfinite(series.values[group][sensor]) & ~doubted[group][sensor] & (method == Method.OBSERVED)
            cell = (np.arange(grid.steps) - slow.phase) // every
            if every > 1:  # an interval of a slower sensor is as its best step
                best = np.lexsort((~has_row, method != Method.OBSERVED, ~good, cell))
                best = best[np.unique(cell[best], return_index=True)[1]]
                cell, method, good, has_row = cell[best], method[best], good[best], has_row[best]
            never = np.zeros(len(cell), np.bool_)
            counting.add(
                "cells",
                {
                    "series": np.full(len(cell), number), "cell": cell, "method": method,
                    "good": good, "late": never, "too_late": never, "has_row": has_row,
                },
            )  # fmt: skip
        set_spans(counting, spans)
        return counted(counting, spans, days)[0]


def _pairs(cells: Cells) -> list[tuple[int, int]]:
    """Codes of the groups and sensors that have a cell in the file."""
    dated = cells.times_ms != NO_TIME
    found: set[tuple[int, int]] = set()
    for column in cells.columns:
        pairs = np.unique(np.stack([column.group[dated], column.sensor[dated]]), axis=1)
        found.update(zip(*pairs.tolist(), strict=True))
    return sorted(found)


def _with_kept(methods: list[Methods], cells: Cells, series: Series) -> list[Methods]:
    """The methods with the cells observed that hold something else than a usable reading."""
    for column in cells.columns:
        for code, rows in by_code(column.group, column.kept & (cells.times_ms != NO_TIME)):
            methods[code][column.sensor[rows], series.step[rows]] = Method.OBSERVED
    return methods


def _methods(
    cells: Cells,
    series: Series,
    request: FileRequest,
    progress: Progress | None,
    stated: Sequence[tuple[str, Methods]],
    timezone: str,
) -> list[Methods]:
    """The method of each cell, nothing in those without a value: one int8 [sensors, steps] for each group."""
    if request.fill:
        if request.step_ms is not None:
            raise SettingsError("expected --fill without --step: filling finds the step from the times")
        outcome = fill_cells(cells, timezone=timezone, progress=progress)
        return [group.method.astype(np.int8) for group in outcome.result.groups]
    out = [np.where(np.isfinite(values), Method.OBSERVED, Method.NONE).astype(np.int8) for values in series.values]
    for column, (_, methods) in zip(cells.columns, stated, strict=bool(stated)):
        for code, rows in by_code(column.group, (series.step >= 0) & (methods != Method.OBSERVED)):
            at = (column.sensor[rows], series.step[rows])
            free = out[code][at] != Method.OBSERVED
            out[code][at[0][free], at[1][free]] = methods[rows][free]
    return out


def _wanted_groups(name: str, cells: Cells, wanted: Sequence[str]) -> Bools:
    """True for the wanted groups, bool [groups].

    Raises:
        SettingsError: a name or pattern matches none.
    """
    fits = [[group == each or fnmatchcase(group, each) for group in cells.groups] for each in wanted]
    for each, found in zip(wanted, fits, strict=True):
        if not any(found):
            raise SettingsError(unknown_name(f"a group of {name}", each, cells.groups))
    return np.any(np.array(fits), axis=0) if fits else np.ones(len(cells.groups), np.bool_)


def _require_readings(file: UserFile) -> None:
    """Require readings with dates.

    Raises:
        SettingsError: the file has other contents.
    """
    if set(file.form.columns) >= _OF_ROWS:
        raise SettingsError(
            f"{file.name}: expected a file of readings, found rows of the output topic, as `tail --out` writes them: "
            "`glaim-stream report` without a file reads the topic itself"
        )
    if file.form.axis is not None:
        raise SettingsError(
            f"{file.name}: expected times with dates, found {file.form.time!r}, which counts from a start"
        )


def _without_bounds(file: UserFile, name: str, raw: bytes, stated: dict[str, Any]) -> UserFile:
    """The file without the bounds that `fill --flags` wrote beside its readings: they are numbers, but no sensors."""
    sensors = file.form.sensors
    bounds = {
        each for sensor in sensors for each in beside(sensor, ())[1:] if beside(sensor, ())[0] in file.form.columns
    }
    kept = tuple(sensor for sensor in sensors if sensor not in bounds)
    if stated.get("sensors") or file.form.layout == "long" or len(kept) == len(sensors):
        return file
    return open_file(name, raw, **{**stated, "sensors": kept})


def _stated_methods(file: UserFile, cells: Cells) -> list[tuple[str, Methods]]:
    """Name and methods [rows] of the column of methods beside each column of readings; empty without any."""
    out: list[tuple[str, Methods]] = []
    table = file.reading.table
    codes = {name: code for code, name in enumerate(METHODS)} | {DOUBTFUL: Method.OBSERVED}
    for column in cells.columns:
        name = beside(column.name, ())[0]
        if name not in table.column_names:
            continue
        texts = table.column(name).to_pylist()
        if not set(texts) <= {*codes, "", None}:
            continue
        out.append((name, np.array([codes.get(text or "", Method.NONE) for text in texts], np.int8)))
    if out and len(out) < len(cells.columns):
        raise SettingsError(
            f"{file.name}: expected methods beside all columns of readings, as `fill --flags` writes them, or none"
        )
    return out


def _observed(column: ReadingColumn, stated: Sequence[tuple[str, Methods]]) -> ReadingColumn:
    """The column without the values that were filled."""
    methods = next(methods for name, methods in stated if name == beside(column.name, ())[0])
    return replace(column, value=np.where(methods == Method.OBSERVED, column.value, np.nan))
