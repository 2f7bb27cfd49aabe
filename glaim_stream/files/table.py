"""Reads a file as a table: columns with their text and types, before their roles are found."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError, listed
from glaim_stream.core.vocabulary import DOUBTFUL, METHODS
from glaim_stream.files.content import content_of, plain, typed_table
from glaim_stream.files.form import NumberForm, TextForm
from glaim_stream.files.kinds import is_number, is_text
from glaim_stream.files.numbers import described, number_columns
from glaim_stream.files.quality import names_quality
from glaim_stream.files.text import SEPARATOR_NAMES, columns_of
from glaim_stream.files.well_log import WellLog

_NAMELESS = "index"  # name of the one column without a name, such as an index that pandas wrote
OF_ROWS = frozenset({"method", "observed", "value"})  # columns of output rows, as `tail` and `replay` write them
_OF_HOLES = frozenset({"method", "value", "lower", "upper"})  # columns of `fill --flags-out`
_STATED = frozenset({*METHODS, DOUBTFUL, "", None})
_BESIDE = re.compile(r"(.+)_(method|lower|upper)_*")  # columns of `fill --flags`, which adds _ to a taken name


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a file with their text and types; their roles are not found yet."""

    names: tuple[str, ...]  # names of all columns; `columns` omits those with neither a name nor a cell
    columns: dict[str, Any]  # Arrow arrays, as text if the file is text
    numbers: dict[str, Any]  # columns that hold numbers, as numbers
    number_forms: dict[str, NumberForm]
    words: dict[str, tuple[str, ...]]  # words for missing values among a column's numbers, by column
    kept: dict[str, NDArray[np.bool_]]  # cells of columns of numbers whose text may be a reading and is no number
    odd: dict[str, str]  # reasons why columns of mostly numbers are not read as numbers
    kind: str
    compression: str
    text: TextForm | None
    units: dict[str, str]
    line_of_row: NDArray[np.int64] | None
    notes: tuple[str, ...]
    log: WellLog | None = None
    heads: tuple[int, ...] = ()  # rows above which the line of names is repeated

    @property
    def arrow(self) -> pa.Table:
        """All columns, as numbers where they hold numbers."""
        return pa.table({each: self.numbers.get(each, cells) for each, cells in self.columns.items()})


def read_table(
    source: Path | bytes, *, missing: Sequence[str] = (), missing_of: Mapping[str, Sequence[str]] | None = None,
    decimal: str = "", only_readings: bool = False, name: str = "",
) -> Table:  # fmt: skip
    """Read a file as a table: kind, encoding, separator, header, and how its numbers are written.

    Args:
        source: path of the file, or its bytes.
        missing: words that mean a missing value, in every column.
        missing_of: further words by column.
        decimal: decimal sign, "." or ",".
        only_readings: reject a file that holds filled values.
        name: name of the file, for messages; default: from the path.

    Raises:
        SettingsError: the file cannot be read, its numbers are ambiguous, or it holds unwanted filled values.
    """
    name = name or (source.name if isinstance(source, Path) else "the data")
    data, kind, compression = content_of(source, name)
    notes = ["gzip inside"] if compression else []
    text, lines, log = None, None, None
    heads: tuple[int, ...] = ()
    units: dict[str, str] = {}
    if kind == "csv":
        split = columns_of(data, name)
        names, cells = split.names, [plain(each) for each in split.cells]
        text, units, lines, log = split.form, split.units, split.line_of_row, split.log
        heads = split.heads
        kind = "csv" if log is None else "las"
        if log is None and text.separator != ",":
            notes.append(f"columns separated by {SEPARATOR_NAMES[text.separator]}")
        if text.encoding != "utf-8":
            notes.append(f"encoded in {text.encoding}")
        if units and log is None:
            notes.append("units in the line below the names")
        notes += split.notes
    else:
        table = typed_table(data, kind, name)
        names, cells = tuple(table.column_names), [plain(each) for each in table.columns]
    if only_readings:
        require_no_filled_rows(dict(zip(names, cells, strict=True)), name)
    names = _told_apart(names)
    nameless = [at for at, column in enumerate(names) if not column and not _is_empty(cells[at])]
    if len(nameless) == 1 and _NAMELESS not in names:
        names = (*names[: nameless[0]], _NAMELESS, *names[nameless[0] + 1 :])
    names, renamed = _distinct(names)
    notes += renamed
    kept = [(column, each) for column, each in zip(names, cells, strict=True) if column or not _is_empty(each)]
    if sum(not column for column, _ in kept) > 1:
        raise SettingsError(f"{name}: expected columns with names, found several columns of readings without one")
    if not kept or not len(kept[0][1]):
        raise SettingsError(f"{name}: expected rows of readings, found none")
    columns = dict(kept)
    written = {column: each for column, each in columns.items() if is_text(each.type)}
    found, odd, number_notes = number_columns(
        written, missing=missing, decimal=decimal, separator=text.separator if text else "", name=name,
        missing_of=missing_of,
    )  # fmt: skip
    if decimal and not any(each.form.decimal == decimal for each in found.values()):
        raise SettingsError(f"{name}: no column is written with {decimal!r} as decimal sign")
    numbers = {
        column: found[column].values if column in found else each
        for column, each in columns.items()
        if column in found or is_number(each.type)
    }
    unused = {column: each.unused_in(columns[column]) for column, each in found.items() if each.kept}
    return Table(
        tuple(names), columns, numbers, {column: each.form for column, each in found.items()},
        {column: each.words for column, each in found.items() if each.words}, unused, odd, kind, compression, text,
        units, lines, (*notes, *number_notes, *described(found)), log, heads,
    )  # fmt: skip


def _told_apart(names: Sequence[str]) -> tuple[str, ...]:
    """The names of columns, where columns of quality that share one, such as `qc`, are called after those before."""
    shared = {each for each, count in Counter(names).items() if count > 1 and each and names_quality(each)}
    before = ("", *names)
    return tuple(f"{before[at]} {each}" if each in shared else each for at, each in enumerate(names))


def _distinct(names: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """The names, numbered where one is repeated (`qc`, `qc_2`), and a note that says so."""
    taken, distinct, repeated = set(names), list[str](), dict[str, list[str]]()
    for at, column in enumerate(names):
        if column and column in names[:at]:
            number = names[:at].count(column) + 1
            while f"{column}_{number}" in taken:
                number += 1
            taken.add(f"{column}_{number}")
            repeated.setdefault(column, []).append(f"{column}_{number}")
            distinct.append(f"{column}_{number}")
        else:
            distinct.append(column)
    return tuple(distinct), [
        f"{len(more) + 1} columns are named {column!r}: the others are called {listed(more)}, from left to right"
        for column, more in repeated.items()
    ]


def _is_empty(column: Any) -> bool:
    if is_text(column.type):
        return bool(pc.all(pc.equal(pc.fill_null(column, ""), "")).as_py())
    return bool(column.null_count == len(column))


def require_no_filled_rows(columns: Mapping[str, Any], name: str) -> None:
    """Reject a table that holds filled values, from any kind of file.

    Args:
        columns: Arrow arrays by name.
        name: name of the file, for the message.

    Raises:
        SettingsError: the columns are those of filled rows, or those that `fill` writes beside filled columns.
    """
    if columns.keys() >= OF_ROWS:
        raise SettingsError(refusal(name, OF_ROWS))
    if columns.keys() >= _OF_HOLES and _states_methods(columns["method"]):
        raise SettingsError(refusal(name, _OF_HOLES))
    beside: dict[str, dict[str, str]] = {}
    for column in columns:
        if (match := _BESIDE.fullmatch(column)) is not None and match[1] in columns:
            beside.setdefault(match[1], {})[match[2]] = column
    for found in beside.values():
        if len(found) == 3 and _states_methods(columns[found["method"]]):
            raise SettingsError(f"{refusal(name, found.values())}; take the file that was filled")


def refusal(name: str, columns: Collection[str]) -> str:
    """The message about a file of filled rows."""
    told = ", ".join(repr(each) for each in sorted(columns))
    return (
        f"{name}: expected readings, found filled rows, which must not be learned or sent as readings "
        f"(the columns {told})"
    )


def _states_methods(column: Any) -> bool:
    """Whether all cells of a column are names of methods."""
    return is_text(column.type) and set(column.unique().to_pylist()) <= _STATED
