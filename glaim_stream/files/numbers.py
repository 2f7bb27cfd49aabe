"""Reads columns of text as numbers, in the one format that all cells of a column fit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError, listed
from glaim_stream.files.form import NumberForm

# Signs between thousands: comma, point, apostrophes, and blanks that a line cannot be broken at. A plain blank too.
_APOSTROPHES, _BLANKS = "'\u2019", "\u00a0\u202f\u2009 "
_EXPONENT = r"([eE][+-]?\d+)?"
_PLAIN = {sign: rf"^[+-]?(\d+(\{sign}\d*)?|\{sign}\d+){_EXPONENT}$" for sign in ".,"}
_MARKS = {",": ",", ".": r"\.", "'": f"[{_APOSTROPHES}]", " ": f"[{_BLANKS}]"}
# Units that may follow the number in a cell. A single letter counts only after decimals: 5A may be a room.
_UNITS = {
    *("%", "‰", "°", "°C", "°F", "degC", "degF", "C", "F", "K", "W", "kW", "MW", "Wh", "kWh", "MWh", "V", "mV"),
    *("kV", "A", "mA", "Hz", "kHz", "bar", "mbar", "Pa", "hPa", "kPa", "MPa", "psi", "m", "cm", "mm", "km"),
    *("m/s", "km/h", "mph", "rpm", "1/min", "l", "L", "l/s", "l/min", "L/min", "m3", "m³", "m3/h", "m³/h"),
    *("gpm", "kg", "g", "t", "mg", "mg/l", "ug/m3", "µg/m³", "μg/m³", "ppm", "ppb", "s", "ms", "min", "h"),
    *("dB", "lx", "lux", "W/m2", "W/m²"),
}  # fmt: skip
_WITH_UNIT = rf"^[+-]?[\d., '{_BLANKS}]*\d[.,]?(?P<suffix>[{_BLANKS}]?[^\d\s+-][^\s]*)$"
USUAL = (
    "", "-", "--", "---", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "na", "nan", "null", "NAN", "none", "?",
)  # fmt: skip
# Texts that state that there is no reading: a code of a spreadsheet, signs alone, or words of a logger or historian.
# All others (Low, High, Trace, <0.10, an infinity) may be readings, so their cells are neither filled nor used.
_NO_READING = re.compile(
    r"#[A-Z/]+[0A-Z/]*[!?]?|[-*./?_=~\u2013\u2014]+|[(<\[]?(n\.?/?a\.?n?|n\.?/?d\.?|nil|null|none|empty|blank|mm?|"
    r"miss(ing)?|void|unknown|undef(ined)?|invalid|bad|fault(y)?|fail(ed|ure)?|err(or)?|stale|unavailable|"
    r"not available|no reading|"
    r"no value|no result|no signal|no response|no sensor|no comm(unication|s)?|no good data( for calculation)?|"
    r"offline|off-line|out of service|over range|under range|configure|scan (off|timeout)|intf shut|i/o timeout|"
    r"time-?out|timed out|pt created|not connect(ed)?|disconnect(ed)?|shut ?down|"
    r"no ?data|(bad|invalid|comm|com|calc|sensor|read|data|input|output|dcs|filter|set to|device|probe|value|open|"
    r"wire|arc|signal|system|equip|access|communication|calculation|crc|checksum|i/o|io|conn|connection|tag|power|"
    r"hardware|comms|channel|module|server|source)[ _-](bad|input|output|fail(ed|ure)?|fault|err(or)?|data|value|"
    r"quality|lost|invalid|timeout|off-line|offline|missing|circuit|broken|denied|shut|status|unavailable|break))[)>\]]?",
    re.IGNORECASE,
)
_FEW, _MANY = 5, 10  # different numbers of a column that make it one of numbers, though other texts are among them
_RARE = 0.01  # share of texts such as 3A among whole numbers, up to which they are no names


def _pattern(decimal: str, thousands: str) -> str:
    if not thousands:
        return _PLAIN[decimal]
    mark = _MARKS[thousands]
    grouped = rf"[1-9]\d{{0,2}}({mark}\d{{3}})+|[1-9]\d?({mark}\d{{2}})+{mark}\d{{3}}"  # 0.123 has no thousands
    return rf"^[+-]?({grouped}|\d{{1,3}})(\{decimal}\d*)?$"  # 1.234e5 has none either


_FORMS = [
    *((NumberForm(decimal), _pattern(decimal, "")) for decimal in ".,"),
    *(
        (NumberForm(decimal, thousands), _pattern(decimal, thousands))
        for decimal in ".,"
        for thousands in (",", ".", "'", " ")
        if thousands != decimal
    ),
]


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column read as numbers: the values with nulls, their format, and the other texts among them."""

    values: Any  # Arrow array of float64, or of int64 where every cell is a whole number
    form: NumberForm
    words: tuple[str, ...] = ()  # texts that mean a missing value
    kept: Mapping[str, int] = field(default_factory=dict)  # texts that may be readings, with their counts

    def unused_in(self, cells: Any) -> NDArray[np.bool_]:
        """Cells whose text may be a reading and is no number, bool [R]."""
        found = pc.is_in(cells, pa.array(list(self.kept), pa.string()))
        return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


@dataclass(frozen=True, slots=True)
class _Way:
    """The formats that the numbers of a column fit, its unit, and its other texts; `strange`: why there is none."""

    forms: list[NumberForm]
    words: tuple[str, ...] = ()
    kept: Mapping[str, int] = field(default_factory=dict)
    suffix: str = ""
    strange: str = ""


def number_columns(
    columns: Mapping[str, Any], *, missing: Sequence[str], decimal: str, separator: str, name: str,
    missing_of: Mapping[str, Sequence[str]] | None = None,
) -> tuple[dict[str, Numbers], dict[str, str], list[str]]:  # fmt: skip
    """The text columns that hold numbers, the reasons why columns of mostly numbers do not, and notes.

    Args:
        columns: Arrow columns of text, without blanks around the cells.
        missing: words that mean a missing value, besides the usual ones.
        decimal: decimal sign; "": detected.
        separator: separator of the file's cells.
        name: name of the file.
        missing_of: further words by column.

    Raises:
        SettingsError: a column's numbers can be read in two ways.
    """
    open_columns: dict[str, tuple[Any, _Way, list[str]]] = {}
    odd: dict[str, str] = {}
    notes: list[str] = []
    for column, cells in columns.items():
        told = [*missing, *(missing_of or {}).get(column, ())]
        way = _way(cells, told)
        if way.strange:
            odd[column] = way.strange
        if way.forms:
            cells = pc.replace_substring_regex(cells, f"{re.escape(way.suffix)}$", "") if way.suffix else cells
            open_columns[column] = (cells, way, [*told, *way.words, *way.kept])
    proven = {way.forms[0].decimal for _, way, _ in open_columns.values()
              if len({each.decimal for each in way.forms}) == 1 and _shows_decimals(way.forms)}  # fmt: skip
    found = {}
    for column, (cells, way, others) in open_columns.items():
        form, note = _one(column, cells, way.forms, proven, decimal, separator, others, name)
        values = _values(cells, form, others)
        found[column] = Numbers(values, replace(form, suffix=way.suffix), way.words, way.kept)
        notes += note
    return found, odd, notes


def _way(cells: Any, missing: Sequence[str]) -> _Way:
    """How a column is written: the formats of most of its numbers, and the texts that are none of them."""
    counted = pc.value_counts(cells.drop_null())
    texts, rows = counted.field("values"), counted.field("counts").to_numpy()
    filled = pc.invert(pc.is_in(texts, pa.array([*USUAL, *missing], texts.type)))
    texts, rows = texts.filter(filled), rows[filled.to_numpy(zero_copy_only=False)]
    if not len(texts):
        return _Way([NumberForm()])
    states = pc.match_substring_regex(texts, "^#|^[^0-9]*$").to_numpy(zero_copy_only=False)
    words = {text: _NO_READING.fullmatch(text) is not None for text in texts.filter(pa.array(states)).to_pylist()}
    numeric, counts = texts.filter(pa.array(~states)), rows[~states]
    if not len(numeric):
        return _Way([])
    bare, suffix = numeric, _suffix(numeric, counts)
    if suffix:
        bare = pc.replace_substring_regex(
            pc.if_else(pc.ends_with(numeric, suffix), numeric, ""), f"{re.escape(suffix)}$", ""
        )
    bare = pc.replace_substring(bare, "\u2212", "-")
    fits = [pc.match_substring_regex(bare, pattern).to_numpy(zero_copy_only=False) for _, pattern in _FORMS]
    most = max(int(counts[each].sum()) for each in fits)
    best = next(each for each in fits if counts[each].sum() == most)
    if not most:
        return _Way([])
    forms = [form for (form, _), each in zip(_FORMS, fits, strict=True) if (each == best).all()]
    as_often = any(counts[each].sum() == most and (each != best).any() for each in fits)
    others = dict(zip(numeric.filter(pa.array(~best)).to_pylist(), counts[~best].tolist(), strict=True))
    said = dict(zip(texts.filter(pa.array(states)).to_pylist(), rows[states].tolist(), strict=True))
    kept = others | {text: said[text] for text, none in words.items() if not none}
    none = tuple(text for text, none in words.items() if none)
    whole = bool(pc.all(pc.match_substring_regex(bare.filter(pa.array(best)), r"^[+-]?\d+$")).as_py())
    if not kept or (not as_often and _are_readings(int(best.sum()), most, others, kept, whole=whole)):
        return _Way(forms, none, kept, suffix)
    odd = next(iter(others), next(iter(kept)))
    if most < sum(kept.values()):
        return _Way([], strange=f"mostly texts such as {odd!r}, beside {most:,} numbers")
    if others:
        return _Way([], strange=f"its cells are no numbers in one way of writing: {odd!r} beside those with "
                    f"{_said(forms[0])}")  # fmt: skip
    return _Way([], strange=f"texts such as {odd!r} beside {most:,} numbers")


def _are_readings(numbers: int, rows: int, others: Mapping[str, int], kept: Mapping[str, int], *, whole: bool) -> bool:
    """Whether a column is one of numbers, though texts that may be readings are among them.

    Args:
        numbers: different numbers.
        rows: cells with numbers.
        others: texts with a digit that are no numbers of the column's format, with their counts.
        kept: these and the other texts that may be readings.
        whole: all numbers are whole.
    """
    odd = sum(kept.values())
    names = sum(count for text, count in others.items() if re.fullmatch(r"\d+[A-Za-z]+|[A-Za-z]+[-_]?\d+", text))
    if whole and names > _RARE * rows:
        return False  # 3A may be the name of a room, and 3 that of another
    if numbers < _FEW:
        return not others and len(kept) <= numbers and odd <= rows / (10 if whole else 2)
    return odd <= rows or (numbers >= _MANY and 2 * len(kept) <= numbers)


def _suffix(numeric: Any, counts: NDArray[np.int64]) -> str:
    """The unit after at least half of a column's numbers, with the blank before it; "" without one."""
    suffixes = pc.struct_field(pc.extract_regex(numeric, _WITH_UNIT), "suffix")
    found: dict[str, int] = {}
    for suffix, count in zip(suffixes.to_pylist(), counts.tolist(), strict=True):
        if suffix is not None and suffix.strip() in _UNITS:
            found[suffix] = found.get(suffix, 0) + count
    suffix = max(found, key=lambda each: found[each], default="")
    if not suffix or found[suffix] < counts.sum() / 2:
        return ""
    if len(suffix.strip()) == 1 and suffix.strip().isalpha():
        decimals = pc.any(pc.match_substring_regex(numeric, r"\d[.,]\d")).as_py()
        return suffix if decimals else ""
    return suffix


def _said(form: NumberForm) -> str:
    sign = {".": "a decimal point", ",": "a decimal comma"}[form.decimal]
    return sign + (f" and {form.thousands!r} between thousands" if form.thousands else "")


def _shows_decimals(forms: Sequence[NumberForm]) -> bool:
    return any(form.decimal == "," or not form.thousands for form in forms)


def _one(
    column: str, cells: Any, forms: list[NumberForm], proven: set[str], decimal: str, separator: str,
    missing: Sequence[str], name: str,
) -> tuple[NumberForm, list[str]]:  # fmt: skip
    """The form of a column; forms that read the same numbers count as one.

    Raises:
        SettingsError: two forms read different numbers, and nothing decides.
    """
    if decimal:
        forms = [form for form in forms if form.decimal == decimal]
        if not forms:
            raise SettingsError(f"{name}, column {column!r}: expected numbers with {decimal!r} as decimal sign")
    distinct = pc.unique(cells.drop_null())
    readings = [_values(distinct, form, missing) for form in forms]
    different = [0]
    for at in range(1, len(forms)):
        if all(not readings[at].equals(readings[known]) for known in different):
            different.append(at)
    if len(different) == 1:
        return forms[0], []
    if len(proven) == 1:
        # Other columns of the file prove the decimal sign: programs write one way.
        kept = [at for at in different if forms[at].decimal in proven]
        plain = [at for at in kept if not forms[at].thousands]
        if len(kept) == 1 or plain:
            return forms[(plain or kept)[0]], []
    at = _first_difference(readings, different)
    text = distinct[at].as_py()
    first, second = (readings[each][at].as_py() for each in different[:2])
    plain_point = forms[0] == NumberForm(".")
    if separator == "," and plain_point and _one_width(distinct):
        # Programs that write a decimal comma separate cells by another character, and %.3f always writes three digits.
        return forms[0], [f"{column!r}: {text} is read as {first:g}: the point is the decimal sign"]
    raise SettingsError(
        f"{name}, column {column!r}: {text} may be {first:.12g} or {second:.12g}, and no cell of the file shows which: "
        "state the decimal sign (--decimal . or --decimal ,)"
    )


def _one_width(distinct: Any) -> bool:
    """Whether every number but 0 has exactly three digits after its point."""
    cells = distinct.filter(pc.match_substring_regex(distinct, r"^[+-]?(0\d|0\D|[1-9])"))
    return bool(pc.all(pc.match_substring_regex(cells, r"\.\d{3}$")).as_py())


def _first_difference(readings: Sequence[Any], different: Sequence[int]) -> int:
    first, second = (readings[each].to_numpy(zero_copy_only=False).astype(float) for each in different[:2])
    unlike = (first != second) & np.isfinite(first) & np.isfinite(second)
    return int(np.flatnonzero(unlike)[0])


def _values(cells: Any, form: NumberForm, missing: Sequence[str]) -> Any:
    """Cells as numbers, null where missing; whole numbers as int64."""
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    cells = pc.if_else(pc.is_in(cells, pa.array([*USUAL, *missing], cells.type)), None, cells)
    cells = pc.replace_substring(cells, "\u2212", "-")
    if form.thousands:
        cells = pc.replace_substring_regex(cells, f"{_MARKS[form.thousands]}", "")
    if form.decimal == ",":
        cells = pc.replace_substring(cells, ",", ".")
    cells = pc.replace_substring_regex(cells, r"^\+", "")
    whole = pc.all(pc.match_substring_regex(cells, r"^-?\d{1,18}$")).as_py()
    return pc.cast(cells, pa.int64() if whole and cells.null_count < len(cells) else pa.float64())


def floats_of(cells: Any) -> NDArray[np.float64]:
    """An Arrow column of numbers as float64; NaN where missing or not finite.

    Whole numbers above 2^53 are rounded; their cells keep their digits, like all observed cells.
    """
    values = np.array(pc.cast(cells, pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
    values[~np.isfinite(values)] = np.nan
    return values


def described(found: Mapping[str, Numbers]) -> list[str]:
    """Notes on the formats of numbers, and on words for missing values."""
    notes = []
    comma = [column for column, each in found.items() if each.form.decimal == ","]
    marked = [column for column, each in found.items() if each.form.thousands]
    if comma:
        notes.append(f"decimal commas in {listed(comma)}")
    if marked:
        notes.append(f"signs between thousands in {listed(marked)}")
    units = [f"{each.form.suffix.strip()} in {column!r}" for column, each in found.items() if each.form.suffix]
    if units:
        notes.append(f"units behind the numbers: {listed(units)}")
    for column, each in found.items():
        if each.words:
            notes.append(f"no value in {column!r}: {listed([repr(word) for word in each.words])}, among its numbers")
    return notes
