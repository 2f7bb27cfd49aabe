"""Finds the encoding, separator and header of separated text, and splits it into columns of text."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
from numpy.typing import NDArray

from glaim_stream.core.arrow_input import arrow_input
from glaim_stream.core.errors import SettingsError
from glaim_stream.files.form import TextForm
from glaim_stream.files.well_log import WellLog, well_log

# A comma comes late: it also occurs in numbers and in names such as "Level, m". Blanks are the last resort.
SEPARATORS = ("\t", ";", "|", ",", " ")
SEPARATOR_NAMES = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas", " ": "blanks"}
COMMENTS = ("#", "%", "//", "!")
_MOST_FOOTER = 50  # lines
_SOLID_ROWS = 50  # lines that the columns of times and numbers are found from
_SAMPLE = 3000  # lines that separator and header are found from
_NUMBER = re.compile(r"[+-]?(\d[\d.,' \u00a0\u202f]*)([eE][+-]?\d+)?|[+-]?[.,]\d+")
_TIME = re.compile(
    r"^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}\b|^\d{1,2}[:.]\d{2}[:.]\d{2}|^\d{1,2}:\d{2}|^\d{4}-\d\d|"
    r"^\d{1,2}[-/ ]?[A-Za-z]{3}[-/ ]?\d"
)
_WIDTH = re.compile(r"\d+[a-z]")  # such as 15s in the type line of a USGS file
_TIME_WORD = re.compile(r"time|date|datum|zeit|uhr|fecha|hora|jour|heure|year|month|yyyy|\bts\b|stamp", re.IGNORECASE)
_QUOTED = re.compile(r'(?:^|[,;|\t])[ ]*"')  # quote at the beginning of a cell, for any separator
_MOST_PLACES = 20  # lines of a table about the place
_MOST_LINES = 1000  # lines of one quoted cell
_BLANK_WORDS = {"", "nan", "na", "n/a", "null", "none"}


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of text, without the blanks and quotes around a cell."""

    form: TextForm
    names: tuple[str, ...]
    cells: tuple[pa.ChunkedArray, ...]
    units: dict[str, str]
    line_of_row: NDArray[np.int64]
    notes: tuple[str, ...]
    log: WellLog | None = None
    heads: tuple[int, ...] = ()  # rows above which the line of names is repeated


def decoded(data: bytes) -> tuple[str, TextForm]:
    """The text of bytes, without its byte order mark.

    The encoding is UTF-8 if all bytes are valid, UTF-16 with a mark or if every second byte is 0, else Latin-1, in
    which older loggers write units such as degrees and micro.
    """
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):  # fmt: skip
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding), TextForm(encoding=encoding, byte_order_mark=True)
    head = np.frombuffer(data[:2000], np.uint8)
    if len(head) > 3:
        for encoding, first in (("utf-16-le", 1), ("utf-16-be", 0)):
            zeros = head[first::2] == 0
            if zeros.mean() > 0.9 and not (head[1 - first :: 2] == 0).any():
                return data.decode(encoding), TextForm(encoding=encoding)
    try:
        return data.decode("utf-8"), TextForm()
    except UnicodeDecodeError:
        return data.decode("latin-1"), TextForm(encoding="latin-1")


def raw_cells(line: str, separator: str) -> list[str]:
    """The cells of a line with blanks and quotes; joined by the separator they give the line.

    If blanks are the separator, each cell includes the blanks before it.
    """
    if separator == " ":
        return re.findall(r"\s*(?:\"[^\"]*\"|\S+)", line)
    if '"' not in line:
        return line.split(separator)
    cells, start, quoted = [], 0, False
    for place, sign in enumerate(line):
        if sign == '"' and (quoted or not line[start:place].strip()):
            quoted = not quoted
        elif sign == separator and not quoted:
            cells.append(line[start:place])
            start = place + 1
    return [*cells, line[start:]]


def content(cell: str) -> str:
    """A raw cell without its blanks and quotes."""
    cell = cell.strip()
    if len(cell) > 1 and cell[0] == cell[-1] == '"':
        return cell[1:-1].replace('""', '"').strip()
    return cell


def columns_of(data: bytes, name: str) -> Columns:
    """Split text into columns.

    Raises:
        SettingsError: there is no header, or a line and the header differ in their number of cells.
    """
    try:
        text, form = decoded(data)
    except UnicodeDecodeError as error:
        raise SettingsError(f"{name} cannot be read: {error}") from error
    form = replace(form, newline="\r\n" if "\r\n" in text[:100_000] else "\r" if "\n" not in text else "\n")
    lines = text.splitlines() if form.newline == "\r" else [line.rstrip("\r") for line in text.split("\n")]
    if not any(line.strip() for line in lines):
        raise SettingsError(f"{name}: expected readings, found an empty file")
    if "\x00" in text[:100_000]:
        raise SettingsError(f"{name}: expected text or Parquet or Arrow, found binary data")
    log = well_log(lines, name)
    if log is not None:
        return _of_log(lines, log, form, name)
    lines, first_line = _whole(lines) if '"' in text else (lines, None)
    kept = [at for at, line in enumerate(lines) if line.strip() and not line.lstrip().startswith(COMMENTS)]
    found = [_header(lines, kept, separator) for separator in SEPARATORS]
    chosen = next((each for each in found if each is not None and each.share > 0.5), None)
    chosen = chosen or max((each for each in found if each is not None), key=lambda each: each.share, default=None)
    chosen = chosen or _single_column(lines, kept)
    if chosen is None:
        raise SettingsError(f"{name}: {_no_header(lines, kept)}")
    below, heads = _below(lines, [at for at in kept if at > chosen.last_line], chosen, name)
    names, below, footer, notes = _even(lines, below, chosen, name)
    header = tuple(content(cell) for cell in chosen.cells)
    form = replace(
        form,
        separator=chosen.separator,
        header=header,
        header_line=chosen.line if first_line is None else first_line[chosen.line],
        preamble=tuple(lines[: chosen.line]),
        below_header=tuple(lines[chosen.line + 1 : chosen.last_line + 1]),
        footer=tuple(lines[at] for at in footer),
    )
    shown = sum(1 for line in form.preamble if line.strip())
    if shown:
        notes.insert(0, f"{shown} lines above the names of the columns are no readings")
    comments = sum(line.lstrip().startswith(COMMENTS) for line in lines[chosen.last_line + 1 :])
    if comments:
        notes.append(f"{comments} comment lines among the readings are left out")
    if heads:
        notes.append(
            f"{len(heads)} lines among the readings repeat the names of the columns, first line "
            f"{_number(lines, heads[0])}"
        )
    rows = np.asarray(below, np.int64)
    return Columns(
        form, names, _split([lines[at] for at in below], names, chosen.separator, name),
        _units(names, chosen.below, [content(c) for c in chosen.below[0]] if chosen.below else []),
        rows if first_line is None else np.asarray(first_line, np.int64)[rows], tuple(notes),
        heads=tuple(np.searchsorted(rows, heads).tolist()),
    )  # fmt: skip


def _of_log(lines: Sequence[str], log: WellLog, form: TextForm, name: str) -> Columns:
    width = len(log.names)
    for at in log.rows:
        if _count(lines[at], " ") != width:
            raise SettingsError(
                f"{name}: expected {width} cells in every line, as in the curve section, found "
                f"{_count(lines[at], ' ')} in line {at + 1}: {lines[at][:80]!r}"
            )
    form = replace(form, separator=" ", header=log.names, header_line=-1)
    units = {column: unit for column, unit in zip(log.names, log.units, strict=True) if unit}
    note = f"a well log, LAS {log.version}: depth is {log.names[0]!r}" + (f" in {log.units[0]}" if log.units[0] else "")
    return Columns(
        form, log.names, _split([lines[at] for at in log.rows], log.names, " ", name), units,
        np.asarray(log.rows, np.int64), (note,), log,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Header:
    separator: str
    line: int
    last_line: int  # last line of the header and the lines that belong to it
    cells: list[str]
    below: list[list[str]]  # cells of the lines of units below the header
    count: int  # number of cells of a line of readings
    share: float  # share of the lines below that have this count


def _whole(lines: list[str]) -> tuple[list[str], list[int]]:
    """Lines, joined where a quoted cell spans several, and the first line of each."""
    whole: list[str] = []
    first: list[int] = []
    at = 0
    while at < len(lines):
        end = at + 1
        if '"' in lines[at] and _opens(lines[at]):
            closing = (place for place in range(end, min(len(lines), at + _MOST_LINES)) if '"' in lines[place])
            end = next((place + 1 for place in closing if not _opens("\n".join(lines[at : place + 1]))), end)
        whole.append("\n".join(lines[at:end]))  # a quote that is never closed is an ordinary character
        first.append(at)
        at = end
    return whole, first


def _number(lines: Sequence[str], at: int) -> int:
    """The number of a line in the file, from 1: cells above it may span lines."""
    return at + 1 + sum(line.count("\n") for line in lines[:at])


def _opens(line: str) -> bool:
    """Whether a quoted cell is still open at the end of a line; a quote inside a cell (5") is an ordinary character."""
    at = 0
    while (found := _QUOTED.search(line, at)) is not None:
        close = line.find('"', found.end())
        while close >= 0 and line.startswith('""', close):
            close = line.find('"', close + 2)
        if close < 0:
            return True
        at = close + 1
    return False


def _is_reading(cells: Sequence[str]) -> bool:
    """Whether a line holds a time, or mostly numbers and blanks."""
    plain = [content(cell) for cell in cells]
    if any(_TIME.search(cell) and not re.search(r"[A-Za-z]{4,}", cell) for cell in plain):
        return True
    filled = [cell for cell in plain if cell.lower() not in _BLANK_WORDS]
    numbers = sum(bool(_NUMBER.fullmatch(cell)) for cell in filled)
    if not filled:
        return any(cell for cell in plain)
    return numbers >= max(1, len(filled) / 3) and not all(_WIDTH.fullmatch(cell) for cell in filled)


def _names_a_time(cell: str) -> bool:
    return bool(_TIME_WORD.search(cell)) and not any(sign.isdigit() for sign in cell)


def _header(lines: list[str], kept: list[int], separator: str) -> _Header | None:
    """The header of the lines with this separator; None if they have fewer than two columns."""
    sample = kept[:_SAMPLE]
    cells = {at: raw_cells(lines[at], separator) for at in sample}
    tail = sample[len(sample) // 4 :] or sample
    usual = Counter(len(cells[at]) for at in tail)
    count, most = usual.most_common(1)[0] if usual else (0, 0)
    if count < 2:
        return None
    share = most / len(tail)
    readings = [at for at in sample if len(cells[at]) == count and _is_reading(cells[at])]
    if len(readings) > 1 and any(
        _names_a_time(content(name)) and content(cell)[:1].isdigit()
        for name, cell in zip(cells[readings[0]], cells[readings[1]], strict=True)
    ):
        del readings[0]  # names may be numbers, except the name of the time
    del readings[: _about_the_place(readings, cells, count)]
    start = readings[0] if readings else None
    before = [at for at in sample if start is None or at < start]
    # A name may be missing: lines end with a separator or begin with an unnamed number. Names may be in a comment.
    fitting: list[int] = []
    for at in reversed(before):
        if len(cells[at]) not in (count, count - 1):
            break
        fitting.insert(0, at)
    exact = [at for at in fitting if len(cells[at]) == count]
    fitting = exact or fitting
    if not fitting:
        return _comment_header(lines, sample, start, separator, count, share)
    fitting = _below_another_table(fitting, cells)
    named = [at for at in fitting if _is_header(cells[at])]
    line = next((at for at in named if any(_TIME_WORD.search(cell) for cell in cells[at])), None)
    if line is None:
        line = named[0] if named else fitting[0]
    after = [at for at in fitting if at > line]
    if start is None:  # no line below holds readings: only the header is known
        after = []
    return _Header(
        separator, line, after[-1] if after else line, cells[line], [cells[at] for at in after], count, share
    )


def _about_the_place(readings: Sequence[int], cells: Mapping[int, list[str]], count: int) -> int:
    """The number of lines of numbers without a time that stand above the names: a table about the place."""
    known: list[list[str]] = []
    for at, (first, second) in enumerate(pairwise(readings[:_MOST_PLACES])):
        named = any(len(row) == count for line, row in cells.items() if line < readings[0])
        if named and any(_TIME.search(content(cell)) for cell in cells[first]):
            return 0
        known += [row for line, row in cells.items() if line <= first]
        for line in range(first + 1, second):
            row = cells.get(line, [])
            if (
                len(row) == count
                and row not in known
                and _is_header(row)
                and any(map(_names_a_time, map(content, row)))
            ):
                return at + 1
    return 0


def _below_another_table(fitting: list[int], cells: Mapping[int, list[str]]) -> list[int]:
    """The lines above the readings without a table about the place, whose values stand above the names."""
    for at, line in reversed(list(enumerate(fitting[:-1]))):
        plain = [content(cell) for cell in cells[line]]
        below = [each for each in fitting[at + 1 :] if len({*map(content, cells[each])} - {""}) > 1]
        if any(_NUMBER.fullmatch(cell) for cell in plain) and any(
            any(_TIME_WORD.search(cell) for cell in cells[each]) for each in below
        ):
            return fitting[at + 1 :]
    return fitting


def _single_column(lines: list[str], kept: list[int]) -> _Header | None:
    """The header of a single column, if no line has a separator."""
    head = kept[:_SAMPLE]
    if not head or _is_reading([lines[head[0]]]) or any(sign in lines[at] for at in head for sign in "\t;|,"):
        return None
    if not all(_is_reading([lines[at]]) or not content(lines[at]) for at in head[1:]):
        return None
    return _Header(",", head[0], head[0], [lines[head[0]]], [], 1, 1.0)


def _is_header(cells: Sequence[str]) -> bool:
    plain = [content(cell) for cell in cells]
    while plain and not plain[-1]:
        plain.pop()
    return len(plain) > 1 and all(plain[1:]) and len(set(plain)) == len(plain)


def _comment_header(
    lines: list[str], sample: list[int], start: int | None, separator: str, count: int, share: float
) -> _Header | None:
    """The header in a comment such as `#YY MM DD hh mm WDIR`."""
    if start is None:
        return None
    found: list[tuple[int, list[str]]] = []
    for at in range(start - 1, max(-1, start - 4), -1):
        line = lines[at].lstrip()
        mark = next((each for each in COMMENTS if line.startswith(each)), None)
        if mark is None:
            break
        cells = raw_cells(line.lstrip("".join(COMMENTS)).strip(), separator)
        if len(cells) != count:
            break
        found.insert(0, (at, cells))
    while found and not _is_header(found[0][1]):
        del found[0]
    if not found:
        return None
    (line_at, cells), rest = found[0], [cells for _, cells in found[1:]]
    return _Header(separator, line_at, found[-1][0], cells, rest, count, share)


def _no_header(lines: list[str], kept: list[int]) -> str:
    first = lines[kept[0]][:60] if kept else lines[0][:60]
    return (
        f"expected a line with the names of the columns above the readings, and the same number of cells in every "
        f"line; found {first!r} first"
    )


def _count(line: str, separator: str) -> int:
    if separator != " " and '"' not in line:
        return line.count(separator) + 1
    return len(raw_cells(line, separator))


def _below(lines: list[str], below: list[int], header: _Header, name: str) -> tuple[list[int], list[int]]:
    """The lines below the header without its repetitions, and the lines that repeat its names.

    Raises:
        SettingsError: a line has names of another table.
    """
    head = [content(cell) for cell in header.cells]
    above = {line.strip() for line in lines[: header.last_line + 1]}  # a logger that starts anew writes all of them
    solid = _solid([raw_cells(lines[at], header.separator) for at in below[:_SOLID_ROWS]])
    heads: list[int] = []
    previous = -1
    for at in below:
        under, previous = previous in heads[-1:], at
        first = lines[at].lstrip()[:1]
        if first.isdigit() or first in "+-.":  # most lines: cheap
            continue
        cells = [content(cell) for cell in raw_cells(lines[at], header.separator)]
        if cells == head:
            heads.append(at)
        elif lines[at].strip() not in above and _names_another(cells, solid, under=under):
            raise SettingsError(
                f"{name}: expected one table, found a second line of names in line "
                f"{_number(lines, at)}: {lines[at][:80]!r}; put each table into a file of its own"
            )
    if not heads:
        return below, []
    repeated = above | {lines[at].strip() for at in heads}
    return [at for at in below if lines[at].strip() not in repeated], heads


def _solid(rows: Sequence[Sequence[str]]) -> dict[int, tuple[bool, set[str]]]:
    """Places of columns of times and of numbers: whether they hold times, and words that they hold several times."""
    width = max(map(len, rows), default=0)
    found: dict[int, tuple[bool, set[str]]] = {}
    for place in range(width):
        cells = [content(row[place]) for row in rows if place < len(row)]
        timed = sum(bool(_TIME.search(cell)) for cell in cells) > len(cells) / 2
        if timed or sum(bool(_NUMBER.fullmatch(cell)) for cell in cells) > len(cells) / 2:
            words = Counter(cell for cell in cells if not _NUMBER.fullmatch(cell) and not _TIME.search(cell))
            found[place] = timed, {cell for cell, count in words.items() if count > 1}
    return found


def _names_another(cells: Sequence[str], solid: Mapping[int, tuple[bool, set[str]]], *, under: bool) -> bool:
    """Whether a line has different words alone where the rows have times and numbers, one of them for a time.

    Under a repeated line of names one word is enough: these are other units.
    """
    filled = [cell for cell in cells if cell.lower() not in _BLANK_WORDS]
    if any(_NUMBER.fullmatch(cell) or _TIME.search(cell) for cell in filled):
        return False
    words = {at: cell for at, cell in enumerate(cells) if at in solid and cell in filled and cell not in solid[at][1]}
    if under:
        return bool(words)
    timed = any(solid[at][0] for at in words) or any(_TIME_WORD.search(cell) for cell in filled)
    return timed and len(set(words.values())) > 1


def _even(
    lines: list[str], below: list[int], header: _Header, name: str
) -> tuple[tuple[str, ...], list[int], list[int], list[str]]:
    """The names, and the lines of readings with a cell for each; differing lines at the end are the footer.

    Raises:
        SettingsError: a line has too many or too few cells.
    """
    separator, width = header.separator, max(header.count, len(header.cells))
    names = [content(cell) for cell in header.cells]
    notes: list[str] = []
    if len(names) < width:
        rows = [raw_cells(lines[at], separator) for at in below[:50]]
        if all(not content(row[-1]) for row in rows if len(row) == width):
            names += [""] * (width - len(names))
        elif separator in " \t" and [content(row[0]) for row in rows] == [str(at + 1) for at in range(len(rows))]:
            names = ["", *names]  # write.table of R leaves the row numbers without a name
        else:
            raise SettingsError(
                f"{name}: expected a name for each column, found {len(names)} names and {width} cells in line "
                f"{_number(lines, below[0])}; a comma as the decimal sign needs another separator, or quotes"
            )
    odd = [at for at in below if _count(lines[at], separator) != width]
    footer: list[int] = []
    while odd and len(footer) < _MOST_FOOTER and odd[-1] == below[-1]:
        footer.insert(0, odd.pop())
        below = below[:-1]
    for at in odd:
        cells = raw_cells(lines[at], separator)
        if not (len(cells) > width and not any(content(cell) for cell in cells[width:])):
            raise SettingsError(
                f"{name}: expected {width} cells in every line, as in the line of names, found {len(cells)} in line "
                f"{_number(lines, at)}: {lines[at][:80]!r}"
            )
    if odd:
        notes.append(f"{len(odd)} lines have more separators than columns")
    if footer:
        notes.append(
            f"{len(footer)} lines below the readings are left out, the first of them {lines[footer[0]][:60]!r}"
        )
    return tuple(names), below, footer, notes


def _split(lines: list[str], names: Sequence[str], separator: str, name: str) -> tuple[pa.ChunkedArray, ...]:
    """The columns of the lines' cells, all text."""
    if not lines:
        return tuple(pa.chunked_array([pa.array([], pa.string())]) for _ in names)
    if separator == " ":
        lines = ["\t".join(content(cell) for cell in raw_cells(line, " ")) for line in lines]
        separator = "\t"
    width = len(names)
    if any(line.count(separator) >= width for line in lines):
        lines = [
            line if line.count(separator) < width else separator.join(raw_cells(line, separator)[:width])
            for line in lines
        ]
    if width == 1:
        return (pa.chunked_array([pa.array([content(line) for line in lines], pa.string())]),)
    places = [f"c{at}" for at in range(width)]
    try:
        table = csv.read_csv(
            arrow_input("\n".join([*lines, ""]).encode()),
            read_options=csv.ReadOptions(column_names=places, block_size=1 << 24),
            parse_options=csv.ParseOptions(delimiter=separator, newlines_in_values=any("\n" in line for line in lines)),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(places, pa.string()), null_values=[], strings_can_be_null=False
            ),
        )
    except (pa.ArrowException, UnicodeError) as error:
        raise SettingsError(f"{name} cannot be read: {error}") from error
    if table.num_rows != len(lines):
        raise SettingsError(f"{name}: expected {len(lines)} rows, found {table.num_rows}: quotes that do not match")
    return tuple(pc.utf8_trim_whitespace(table.column(place)) for place in places)


def _units(names: Sequence[str], below: Sequence[Sequence[str]], cells: Sequence[str]) -> dict[str, str]:
    """Units by column, from the first line below the names."""
    if not below or len(cells) != len(names):
        return {}
    return {
        name: cell for name, cell in zip(names, cells, strict=True)
        if name and cell and cell.lower() not in _BLANK_WORDS and not _WIDTH.fullmatch(cell)
    }  # fmt: skip
