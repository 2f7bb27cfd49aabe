"""A CSV file kept as text, so that it can be written back with a few cells changed and the rest unchanged.

A record is one line, or several lines where a quoted cell contains line ends. Cells are located in a record only when
they are read or changed; every other character, including line ends and byte order mark, is kept.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError

_LINE = re.compile(r"[^\n]*\n|[^\n]+")  # a lone carriage return belongs to its cell
_OLD_LINE = re.compile(r"[^\r]*\r|[^\r]+")  # line of a file with no other line ends
_BETWEEN_BLANKS = re.compile(r'[ \t]*(?:"[^"]*"|[^ \t]+)')
_BLANKS = re.compile(" *")
_CHUNK = 20_000  # records written at a time
_MOST_KEPT = 1_000_000  # cells kept of split records; about 80 MB
_MOST_LINES = 1000  # lines of one record: a longer one has a quote that is never closed
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Beside:
    """Columns to insert to the right of a column: their names and the cells of each row."""

    names: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Changes:
    """Changes to a file.

    cells: new text by column and row.
    beside: new columns, by the column to their left.
    inserted: cells of new rows, by the row above them.
    """

    cells: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    beside: Mapping[int, Beside] = field(default_factory=dict)
    inserted: Mapping[int, Sequence[Sequence[str]]] = field(default_factory=dict)


class TextTable:
    """The records of a CSV file, and the places of its rows among them."""

    def __init__(
        self,
        raw: bytes,
        *,
        separator: str = ",",
        encoding: str = "",
        header_line: int = 0,
        row_lines: Iterable[int] | None = None,
    ) -> None:
        """Divide a file into records.

        Args:
            raw: the whole file.
            separator: separator between cells; " ": any number of blanks and tabs.
            encoding: encoding of the file; empty: found from the bytes.
            header_line: number of the line with the names of the columns, from 0; -1: the file has none.
            row_lines: number of the first line of each row; by default all lines below the names that are not blank.

        Raises:
            SettingsError: the bytes are not text in the encoding, or a line does not exist.
        """
        self._separator = separator
        self._blanks = separator == " "
        self._encoding = _exact(encoding or encoding_of(raw), raw)
        try:
            text = raw.decode(self._encoding)
        except UnicodeError as error:
            raise SettingsError(f"expected text in {self._encoding}: {error}") from error
        if text.encode(self._encoding) != raw:
            raise SettingsError(f"expected text in {self._encoding}, found bytes that cannot be written back as read")
        # Quotes inside a quoted cell are doubled; blanks may precede it. A quote elsewhere is an ordinary character.
        mark = re.escape(separator)
        self._cell = re.compile(rf'[ ]*"(?>(?:[^"]|"")*)"[^{mark}]*|[^{mark}]*')
        self._line = _LINE if "\n" in text else _OLD_LINE
        self._records = list(self._split(text))
        record_of = self._record_of_line()
        lines = len(record_of)
        if row_lines is None:
            below = range(record_of[header_line] + 1 if header_line >= 0 else 0, len(self._records))
            first_line = {place: line for line, place in reversed(list(enumerate(record_of)))}
            row_lines = [first_line[place] for place in below if self._records[place].strip("\r\n")]
        self._kept: dict[int, list[str]] = {}  # cells by record: columns are read one by one
        self._kept_cells = 0
        rows = list(row_lines)
        if header_line >= lines or (rows and max(rows) >= lines):
            raise SettingsError(f"expected more lines than {lines}")
        self._header = record_of[header_line] if header_line >= 0 else -1
        self._rows = list(dict.fromkeys(record_of[line] for line in rows))
        if len(self._rows) != len(rows):
            raise SettingsError("expected one row in each line, found one that reaches over several lines")
        # Lines of units, for example, have as many cells as the names.
        self._between = set(range(self._header + 1, self._rows[0] if self._rows else 0)) if self._header >= 0 else set()
        header = self._cells(self._header) if self._header >= 0 else []
        self.names = [unquoted(cell).removeprefix(_BYTE_ORDER_MARK).strip(" \t") for cell in header]

    def __len__(self) -> int:
        return len(self._rows)

    def texts(self, place: int, rows: Iterable[int]) -> list[str]:
        """The text of a column's cells in some rows, without quotes; empty where a row ends before the column."""
        out = []
        for row in rows:
            cells = self._cells(self._rows[row])
            out.append(
                unquoted(cells[place].strip(" \t") if self._blanks else cells[place]) if place < len(cells) else ""
            )
        return out

    @cached_property
    def widths(self) -> NDArray[np.int64]:
        """Number of cells of each row."""
        plain = not self._blanks
        records = (self._records[place] for place in self._rows)
        widths = [
            record.count(self._separator) + 1 if plain and '"' not in record else len(self._cells(place))
            for place, record in zip(self._rows, records, strict=True)
        ]
        return np.array(widths, np.int64)

    def written(self, changes: Changes) -> Iterator[bytes]:
        """Yield the file with the changes, in pieces."""
        by_row: dict[int, dict[int, str]] = {}
        for column, cells in changes.cells.items():
            for row_number, text in cells.items():
                by_row.setdefault(self._rows[row_number], {})[column] = text
        row_of = {record: row for row, record in enumerate(self._rows)} if changes.beside or changes.inserted else {}
        pieces: list[str] = []
        for place, record in enumerate(self._records):
            new, row = by_row.get(place), row_of.get(place)
            if new or (changes.beside and (row is not None or place in self._between or place == self._header)):
                record = self._changed(place, row, new or {}, changes.beside)
            pieces.append(record)
            if row is not None and row in changes.inserted:
                pieces += self._new_records(place, changes.inserted[row], changes.beside)
            if len(pieces) >= _CHUNK:
                yield "".join(pieces).encode(self._encoding)
                pieces.clear()
        yield "".join(pieces).encode(self._encoding)

    def _split(self, text: str) -> Iterator[str]:
        """Lines with their ends; those of one record are joined."""
        lines = [match.group() for match in self._line.finditer(text)]
        place = 0
        while place < len(lines):
            record, end = lines[place], place + 1
            if '"' in record and self._open(record):
                joined = record
                while end < min(len(lines), place + _MOST_LINES):
                    joined += lines[end]
                    end += 1
                    if '"' in lines[end - 1] and not self._open(joined):
                        record = joined
                        break
                else:
                    end = place + 1  # never closed: an ordinary character
            yield record
            place = end

    def _open(self, record: str) -> bool:
        """Whether a quoted cell is still open at the end of the record."""
        at = len(_BYTE_ORDER_MARK) if record.startswith(_BYTE_ORDER_MARK) else 0
        while True:
            at += _BLANKS.match(record, at).end() - at  # type: ignore[union-attr]  # it matches nothing, too
            if record.startswith('"', at):
                close = record.find('"', at + 1)
                while close >= 0 and record.startswith('""', close):
                    close = record.find('"', close + 2)
                if close < 0:
                    return True
                at = close
            at = record.find(self._separator, at) + len(self._separator)
            if at < len(self._separator):
                return False

    def _record_of_line(self) -> list[int]:
        """The record in which each line lies."""
        out: list[int] = []
        for place, record in enumerate(self._records):
            out += [place] * (len(self._line.findall(record)) if '"' in record else 1)
        return out

    def _cells(self, place: int) -> list[str]:
        """The cells of a record as written."""
        cells = self._kept.get(place)
        if cells is None:
            cells = self._taken_apart(place)
            self._kept_cells += len(cells)
            if self._kept_cells <= _MOST_KEPT:
                self._kept[place] = cells
        return cells

    def _taken_apart(self, place: int) -> list[str]:
        record = self._records[place]
        body = record[: len(record) - len(_end_of(record))]
        if self._blanks:  # blanks before a cell belong to it
            cells = _BETWEEN_BLANKS.findall(body)
            return [*cells[:-1], cells[-1] + body[sum(map(len, cells)) :]] if cells else []
        if '"' not in body:
            return body.split(self._separator)
        cells, at, bare = [], 0, _BYTE_ORDER_MARK if body.startswith(_BYTE_ORDER_MARK) else ""
        at = len(bare)
        while True:
            match = self._cell.match(body, at)
            assert match is not None  # it matches nothing, too
            cells.append(bare + match.group())
            bare, at = "", match.end()
            if at >= len(body):
                return cells
            at += len(self._separator)

    def _changed(self, place: int, row: int | None, cells: Mapping[int, str], beside: Mapping[int, Beside]) -> str:
        written = list(self._cells(place))
        for column, text in cells.items():
            if column < len(written):
                written[column] = self._replaced(written[column], text)
        out = []
        for column, cell in enumerate(written):
            out.append(cell)
            if column in beside:
                added: Sequence[str] = [""] * len(beside[column].names)
                if place == self._header:
                    added = beside[column].names
                elif row is not None:
                    added = beside[column].rows[row]
                out += map(self._added, added)
        return ("" if self._blanks else self._separator).join(out) + _end_of(self._records[place])

    def _new_records(self, above: int, rows: Iterable[Sequence[str]], beside: Mapping[int, Beside]) -> Iterator[str]:
        end = _end_of(self._records[above]) or "\n"
        for cells in rows:
            out = []
            for column, cell in enumerate(cells):
                out.append(self._added(cell))
                out += [self._added("")] * len(beside[column].names) if column in beside else []
            yield ("" if self._blanks else self._separator).join(out) + end

    def _replaced(self, cell: str, text: str) -> str:
        """The cell with another text inside the same quotes and blanks."""
        bare = cell.strip(" \t")
        if len(bare) > 1 and bare[0] == bare[-1] == '"':
            return cell.replace(bare, '"' + text.replace('"', '""') + '"', 1)
        if self._blanks:  # right-aligned, as such columns mostly are
            own = cell.rstrip(" \t")
            return (" " * (own != bare) + text).rjust(len(own)) + cell[len(own) :]
        text = self._quoted(text)
        return cell.replace(bare, text, 1) if bare else text.rjust(len(cell))

    def _added(self, text: str) -> str:
        return " " + (self._quoted(text) or "NaN") if self._blanks else self._quoted(text)

    def _quoted(self, text: str) -> str:
        special = self._separator in text or '"' in text or "\n" in text or "\r" in text
        return '"' + text.replace('"', '""') + '"' if special else text


def unquoted(cell: str) -> str:
    """The text of a raw cell, without quotes."""
    if '"' not in cell:
        return cell
    bare = cell.removeprefix(_BYTE_ORDER_MARK).strip(" \t")
    if len(bare) > 1 and bare[0] == bare[-1] == '"':
        return bare[1:-1].replace('""', '"')
    return cell


def encoding_of(raw: bytes) -> str:
    """UTF-16 by its byte order mark, UTF-8 if all bytes are valid, else Latin-1, in which every byte is valid."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def _end_of(record: str) -> str:
    return record[len(record.rstrip("\r\n")) :]


def _exact(encoding: str, raw: bytes) -> str:
    """The codec that keeps the byte order mark as a character."""
    name = codecs.lookup(encoding).name
    if name == "utf-16":
        return "utf-16-be" if raw.startswith(codecs.BOM_UTF16_BE) else "utf-16-le"
    return "utf-8" if name == "utf-8-sig" else name
