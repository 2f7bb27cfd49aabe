"""Reads Parquet and CSV files as Arrow tables; separator, decimal sign and encoding of a CSV file are detected."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from glaim_stream.errors import SettingsError

CSV, PARQUET = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
# A comma comes last: it also stands in numbers and in names such as "Level, m".
_SEPARATORS = ("\t", ";", "|", ",")
_NAMES = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
_SAMPLE = 1 << 20  # characters in which separator and decimal sign are detected
_COMMA, _POINT = re.compile(r"[+-]?\d+,\d+"), re.compile(r"[+-]?\d+\.\d+")
_NUMBER, _TIME = re.compile(r"[+-]?\d+([.,]\d+)?([eE][+-]?\d+)?"), re.compile(r"\d[-./:]\d")


@dataclass(frozen=True, slots=True)
class CsvForm:
    """Form of a CSV file; `units` by column come from a second line, below the names."""

    encoding: str = "utf-8"
    separator: str = ","
    decimal: str = "."
    units: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [f"columns separated by {_NAMES[self.separator]}"]
        parts += ["decimal commas"] if self.decimal == "," else []
        parts += [f"encoded in {self.encoding}"] if self.encoding != "utf-8" else []
        parts += ["units in the second line"] if self.units else []
        return ", ".join(parts)


def read_file(path: Path, *, no_value: Sequence[str] = ()) -> pa.Table:
    """Read a file; the form of a CSV file and the types of its columns are detected.

    Args:
        path: `.csv`, `.tsv`, `.txt`, `.parquet` or `.pq`.
        no_value: texts of a CSV file that mean "no value", besides the usual ones (nothing, NaN, null, n/a).

    Raises:
        SettingsError: the file is absent, of another kind, or cannot be read.
    """
    if not path.is_file():
        raise SettingsError(f"expected a data file at {path}, found none")
    try:
        if path.suffix.lower() in PARQUET:
            import pyarrow.parquet as pq

            table = pq.read_table(path)
        elif path.suffix.lower() in CSV:
            table = _read_csv(path, csv_form(path), no_value)
        else:
            raise SettingsError(f"expected a file named {', '.join((*CSV, *PARQUET))}, found {path.name}")
    except (pa.ArrowException, UnicodeError, OSError) as error:
        raise SettingsError(f"{path.name} cannot be read: {error}") from error
    repeated = [name for name, count in Counter(table.column_names).items() if count > 1]
    if repeated:
        raise SettingsError(
            f"{path.name}: expected columns of different names, found several {', '.join(map(repr, repeated))}"
        )
    return table


def usual_no_value() -> list[str]:
    """Texts that mean "no value" in a column of numbers without being declared."""
    import pyarrow.csv as pc

    return list(pc.ConvertOptions().null_values)


def csv_form(path: Path) -> CsvForm:
    """Detect encoding, separator, decimal sign and a line of units from the file's bytes and first lines.

    By default the separator is a comma and the decimal sign a point.
    """
    encoding = _encoding(path)
    with path.open(encoding=encoding, newline="") as file:
        sample = file.read(_SAMPLE)
    for separator in _SEPARATORS:
        rows = _rows(sample, separator)
        if rows and len(rows[0]) > 1 and sum(len(row) == len(rows[0]) for row in rows) > len(rows) / 2:
            cells = [cell.strip() for row in rows for cell in row] if separator != "," else []
            commas, points = (sum(bool(sign.fullmatch(cell)) for cell in cells) for sign in (_COMMA, _POINT))
            return CsvForm(encoding, separator, "," if commas > points else ".", _units(rows))
    return CsvForm(encoding)


def _units(rows: Sequence[Sequence[str]]) -> dict[str, str]:
    """Units by column, where the second row has neither number nor time and the rows below have numbers."""
    names, second, below = rows[0], [cell.strip() for row in rows[1:2] for cell in row], rows[2:100]
    if len(second) != len(names) or any(_NUMBER.fullmatch(cell) or _TIME.search(cell) for cell in second):
        return {}
    number_columns = [
        place
        for place in range(len(names))
        if any(len(row) > place and _NUMBER.fullmatch(row[place].strip()) for row in below)
    ]
    usual = usual_no_value()
    units = {names[place]: second[place] for place in number_columns if second[place] not in usual}
    return units if len(units) >= len(number_columns) / 2 else {}


def _rows(sample: str, separator: str) -> list[list[str]]:
    """Rows that are not blank, without the last one where the sample may end inside it."""
    try:
        rows = [row for row in csv.reader(io.StringIO(sample, newline=""), delimiter=separator) if row]
    except csv.Error:  # a cell that is too large, or NUL: not this separator
        return []
    return rows[:-1] if len(sample) == _SAMPLE else rows


def _encoding(path: Path) -> str:
    """UTF-8 if the whole file is valid, UTF-16 if it has a byte order mark, else Latin-1, in which every byte is valid.

    Older loggers write units such as degrees and micro in Latin-1, and spreadsheets save "Unicode text" as UTF-16.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        chunk = file.read(_SAMPLE)
        if chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        try:
            while chunk:
                decoder.decode(chunk)
                chunk = file.read(_SAMPLE)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "latin-1"
    return "utf-8"


def _read_csv(path: Path, form: CsvForm, no_value: Sequence[str]) -> pa.Table:
    import pyarrow.csv as pc

    table = pc.read_csv(
        path,
        read_options=pc.ReadOptions(encoding=form.encoding, skip_rows_after_names=1 if form.units else 0),
        parse_options=pc.ParseOptions(delimiter=form.separator),
        convert_options=pc.ConvertOptions(decimal_point=form.decimal, null_values=[*usual_no_value(), *no_value]),
    )
    # Lines that end with a separator have a last column without name and content.
    empty = [place for place, field in enumerate(table.schema) if not field.name and pa.types.is_null(field.type)]
    return table.select([place for place in range(table.num_columns) if place not in empty])
