"""Reads a user's file of readings, and writes the same file with its holes filled."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import NO_TIME, zone_of
from glaim_stream.core.vocabulary import Method
from glaim_stream.files import Cells, FileForm, Ints, NumberForm, Reading, ReadingColumn, name_of_file, read
from glaim_stream.files import cells_of as cells_of_reading
from glaim_stream.tables.arrow_files import ArrowTable
from glaim_stream.tables.cells import Outcome, new_rows
from glaim_stream.tables.columns import FilledColumn, NewRows, beside
from glaim_stream.tables.decimals import NumberTexts
from glaim_stream.tables.json_lines import LinesTable
from glaim_stream.tables.text import Beside, Changes, TextTable
from glaim_stream.tables.time_texts import writer_of

_GZIP = b"\x1f\x8b"
_ARROW_FILE = b"ARROW1"
_COMPARED = 500  # cells of a column that are compared with their text
_EXAMPLES = 2_000  # times that their format is found from


@dataclass(frozen=True)
class UserFile:
    """A file and its readings."""

    name: str
    reading: Reading
    table: TextTable | LinesTable | ArrowTable
    gzipped: bool

    @property
    def form(self) -> FileForm:
        """Form of the file."""
        return self.reading.form


def open_file(name: str, raw: bytes, **stated: Any) -> UserFile:
    """Find the form of a file by its content, and read it.

    Args:
        name: name of the file, for messages and for a group without a name.
        raw: bytes of the file.
        stated: keywords of `files.read.read`.

    Raises:
        SettingsError: the file cannot be read, or can be read in two ways.
    """
    gzipped = raw.startswith(_GZIP)
    while raw.startswith(_GZIP):
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            raise SettingsError(f"{name}: expected a whole gzip file: {error}") from error
    if not raw.strip():
        raise SettingsError(f"{name}: expected readings, found an empty file")
    reading = read(raw, name=name, **stated)
    form = reading.form
    if form.text is not None:
        lines = None if reading.line_of_row is None else reading.line_of_row.tolist()
        text = form.text
        table: TextTable | LinesTable | ArrowTable = TextTable(
            raw, separator=text.separator, encoding=text.encoding, header_line=text.header_line, row_lines=lines
        )
    elif form.kind == "jsonl":
        table = LinesTable(raw)
    else:
        kind = "parquet" if form.kind == "parquet" else "arrow" if raw.startswith(_ARROW_FILE) else "stream"
        table = ArrowTable(raw, kind)
    if len(table) != reading.rows:
        raise SettingsError(f"{name}: {reading.rows:,} rows were read where the file has {len(table):,}")
    file = UserFile(name, reading, table, gzipped)
    if isinstance(table, TextTable):
        _check_places(file, table)
    return file


def _check_places(file: UserFile, table: TextTable) -> None:
    """Compare the values that were read with the cells that would be written, in rows from the whole file.

    Raises:
        SettingsError: values and cells differ, for example because quotes make rows ambiguous.
    """
    reading = file.reading
    names = [file.form.value] if file.form.layout == "long" else list(file.form.sensors)
    for name, values in zip(names, reading.values, strict=True):
        rows = np.flatnonzero(np.isfinite(values))
        rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), _COMPARED)).astype(np.int64)]
        style = file.form.numbers.get(name, NumberForm())
        for row, text in zip(rows.tolist(), table.texts(_place(file, name), rows.tolist()), strict=True):
            plain = (
                text.strip().removesuffix(style.suffix).replace(style.thousands or "\0", "").replace(style.decimal, ".")
            )
            try:
                same = math.isclose(float(plain), values[row], rel_tol=1e-9)
            except ValueError:
                same = plain.strip("-+.0123456789eE") != ""  # a number format that float cannot parse
            if not same:
                raise SettingsError(
                    f"{file.name}: row {row + 1:,} of {name!r} holds {text!r}, and was read as {values[row]:g}: "
                    "check the quotes of the rows above"
                )


def cells_of(file: UserFile) -> Cells:
    """Return the readings of a file as cells to fill.

    Raises:
        SettingsError: a column of readings is inside another one.
    """
    cells = cells_of_reading(file.reading, name_of_file(Path(file.name).name) or "file")
    return replace(cells, columns=tuple(_placed(file, each) for each in cells.columns))


def _placed(file: UserFile, column: ReadingColumn) -> ReadingColumn:
    """A column at its place in the file; cells beyond the end of a short row are not holes."""
    place, hole = _place(file, column.name), column.hole
    if isinstance(file.table, TextTable) and hole.any():
        hole = hole & (file.table.widths > place)
    return replace(column, place=place, hole=hole)


def require_additions(file: UserFile, *, flags: bool, insert_rows: bool) -> None:
    """Require that the file can take columns of flags and new rows, if requested.

    Raises:
        SettingsError: the file cannot take them.
    """
    if insert_rows and file.form.zone:
        raise SettingsError(
            f"the column {file.form.zone!r} states the zone of each row, which inserted rows would lack: fill the file "
            "without --insert-rows"
        )
    if insert_rows and file.form.axis and file.form.kind != "las":
        raise SettingsError("rows can be inserted where their times are dates, not where they count from a start")
    if file.form.kind == "las" and (flags or insert_rows):
        raise SettingsError(
            "a well log names its columns and depths in its sections, so none can be added: --flags-out FILE writes "
            "the methods and bounds"
        )


def write(
    file: UserFile, cells: Cells, outcome: Outcome, out: IO[bytes], *, flags: bool = False, insert_rows: bool = False,
    compress: bool = False,
) -> int:  # fmt: skip
    """Write the table with its holes filled, and return the number of inserted rows.

    Args:
        file: table as it was read.
        cells: cells of the table.
        outcome: filled cells.
        out: stream that receives the bytes.
        flags: add columns of method and bounds beside each column of readings.
        insert_rows: insert rows for the steps that have none.
        compress: compress by gzip.

    Raises:
        SettingsError: rows cannot be inserted, or a column's type cannot hold the filled values.
    """
    require_additions(file, flags=flags, insert_rows=insert_rows)
    new, codes = new_rows(cells, outcome) if insert_rows else (None, np.empty(0, np.int64))
    if compress:
        with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as packed:
            _write(file, cells, outcome.columns, cast(IO[bytes], packed), flags, new, codes)
    else:
        _write(file, cells, outcome.columns, out, flags, new, codes)
    return 0 if new is None else len(new.below)


def _write(
    file: UserFile, cells: Cells, columns: Sequence[FilledColumn], out: IO[bytes], flags: bool, new: NewRows | None,
    codes: Ints,
) -> None:  # fmt: skip
    table = file.table
    series = [each.group * len(cells.sensors) + each.sensor for each in cells.columns]
    if isinstance(table, ArrowTable):
        keys = {} if new is None else _typed_keys(file, cells, table, new, codes)
        texts = {
            each.place: _texts(each, of_row, _number_texts(file, each, of_row))
            for each, of_row in zip(columns, series, strict=True)
            if table.holds_text(each.place)
        }
        table.write(table.filled(columns, texts, flags=flags, new=new, keys=keys), out)
        return
    styles = [_number_texts(file, each, of_row) for each, of_row in zip(columns, series, strict=True)]
    known = list(zip(columns, series, styles, strict=True))
    changes = Changes(
        {column.place: _texts(column, of_row, style) for column, of_row, style in known},
        {column.place: _beside(file, column, of_row, style) for column, of_row, style in known} if flags else {},
        {} if new is None else _inserted(file, cells, styles, new, codes),
    )
    for piece in table.written(changes):
        out.write(piece)


def _number_texts(file: UserFile, column: FilledColumn, series: Ints) -> NumberTexts:
    """The styles of a column's numbers, from its observed cells."""
    form = file.form.numbers.get(column.name, NumberForm())
    observed = column.method == Method.OBSERVED
    return NumberTexts.of(lambda rows: file.table.texts(column.place, rows), observed, series, form)


def _texts(column: FilledColumn, series: Ints, style: NumberTexts) -> dict[int, str]:
    rows = column.rows
    cells = (series[rows], column.value[rows], (column.upper - column.lower)[rows] / 2)
    return {
        row: style.cell(code, value, half)
        for row, code, value, half in zip(rows.tolist(), *(each.tolist() for each in cells), strict=True)
    }


def _beside(file: UserFile, column: FilledColumn, series: Ints, style: NumberTexts) -> Beside:
    lower, upper = ([""] * len(column.value) for _ in range(2))
    for row in column.rows.tolist():
        bounds = (float(each[row]) for each in (column.value, column.lower, column.upper))
        lower[row], upper[row] = style.band(int(series[row]), *bounds)
    methods = column.methods()
    if isinstance(file.table, LinesTable):
        methods = [f'"{method}"' for method in methods]
    return Beside(beside(column.name, file.table.names), list(zip(methods, lower, upper, strict=True)))


def _inserted(
    file: UserFile, cells: Cells, styles: Sequence[NumberTexts], new: NewRows, codes: Ints
) -> Mapping[int, Sequence[Sequence[str]]]:
    """The cells of new rows of a text file, by the row above them."""
    if not len(new.below):
        return {}
    assert not isinstance(file.table, ArrowTable)
    places = _time_places(file)
    as_json = isinstance(file.table, LinesTable)
    timed = np.flatnonzero(cells.times_ms != NO_TIME)
    chosen = timed[np.linspace(0, len(timed) - 1, min(len(timed), _EXAMPLES)).astype(np.int64)]
    own = [file.table.texts(place, chosen.tolist()) for place in places]
    writer = writer_of(list(zip(*own, strict=True)), cells.times_ms[chosen].tolist(), zone_of(file.form.timezone))
    group = _place(file, file.form.group) if file.form.group else -1
    out: dict[int, list[list[str]]] = {}
    for index, (below, time_ms, code) in enumerate(
        zip(new.below.tolist(), new.time_ms.tolist(), codes.tolist(), strict=True)
    ):
        row = [""] * len(file.table.names)
        for place, text in zip(places, writer(time_ms), strict=True):
            row[place] = f'"{text}"' if as_json and not text.replace(".", "").isdigit() else text
        if group >= 0:
            row[group] = f'"{cells.groups[code]}"' if as_json else cells.groups[code]
        for column, style, values, half in zip(cells.columns, styles, new.values, new.half, strict=True):
            series = code * len(cells.sensors) + int(column.sensor[0])
            row[column.place] = style.cell(series, values[index], half[index]) if np.isfinite(values[index]) else ""
        out.setdefault(below, []).append(row)
    return out


def _typed_keys(file: UserFile, cells: Cells, table: ArrowTable, new: NewRows, codes: Ints) -> dict[int, Any]:
    places = _time_places(file)
    kinds = [table.table.schema.field(place).type for place in places]
    if len(places) != 1 or not (pa.types.is_timestamp(kinds[0]) or pa.types.is_integer(kinds[0])):
        raise SettingsError("rows can be inserted into this kind of file where one column of timestamps has the times")
    if pa.types.is_integer(kinds[0]):
        row = int(np.flatnonzero(cells.times_ms != NO_TIME)[0])
        factor = table.table.column(places[0])[row].as_py() / cells.times_ms[row]
        keys = {places[0]: pa.array(np.rint(new.time_ms * factor).astype(np.int64))}
    else:
        times = pa.array(new.time_ms, pa.timestamp("ms", "UTC"))
        if kinds[0].tz is None:
            times = pc.local_timestamp(times.cast(pa.timestamp("ms", file.form.timezone)))
        keys = {places[0]: times}
    if file.form.group:
        place = _place(file, file.form.group)
        first = [int(np.flatnonzero(file.reading.group_of_row == code)[0]) for code in codes.tolist()]
        keys[place] = table.table.column(place).take(pa.array(first, pa.int64())).combine_chunks()
    return keys


def _time_places(file: UserFile) -> list[int]:
    names = [file.form.time] if file.form.time in file.form.columns else file.form.time.split("+")
    return [_place(file, name) for name in names]


def _place(file: UserFile, name: str) -> int:
    """The place of a column in the file.

    Raises:
        SettingsError: the column is inside another one, as in a nested table.
    """
    columns = file.form.columns
    if isinstance(file.table, LinesTable) or (
        isinstance(file.table, ArrowTable) and len(columns) != len(file.table.names)
    ):
        columns = tuple(file.table.names)
    if name not in columns:
        raise SettingsError(f"{file.name}: column {name!r} is inside another one, which cannot be written back filled")
    return columns.index(name)
