"""Reads columns of text as numbers, in the one format that all cells of a column fit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
MOST_WORDS = 8  # words of one column
USUAL = (
    "", "-", "--", "---", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "na", "nan", "null", "NAN", "none", "?", "inf", "-inf", "Inf", "-Inf",
)  # fmt: skip


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
    """A column read as numbers: the values with nulls, their format, and words that mean a missing value."""

    values: Any  # Arrow array of float64, or of int64 where every cell is a whole number
    form: NumberForm
    words: tuple[str, ...] = ()


def number_columns(
    columns: Mapping[str, Any], *, missing: Sequence[str], decimal: str, separator: str, name: str
) -> tuple[dict[str, Numbers], dict[str, str], list[str]]:
    """The text columns that hold numbers, the reasons why columns of mostly numbers do not, and notes.

    Args:
        columns: Arrow columns of text, without blanks around the cells.
        missing: words that mean a missing value, besides the usual ones.
        decimal: decimal sign; "": detected.
        separator: separator of the file's cells.
        name: name of the file.

    Raises:
        SettingsError: a column's numbers can be read in two ways.
    """
    open_columns: dict[str, tuple[Any, list[NumberForm], tuple[str, ...]]] = {}
    suffixes: dict[str, str] = {}
    odd: dict[str, str] = {}
    notes: list[str] = []
    for column, cells in columns.items():
        filled = _filled(cells, missing)
        fitting, words, strange = _forms(filled)
        if not fitting and (suffix := _suffix(filled)):
            cells = pc.replace_substring_regex(cells, f"{re.escape(suffix)}$", "")
            fitting, words, strange = _forms(_filled(cells, missing))
            suffixes[column] = suffix
        if strange:
            odd[column] = strange
        if fitting:
            open_columns[column] = (cells, fitting, words)
    proven = {forms[0].decimal for _, forms, _ in open_columns.values() if len({each.decimal for each in forms}) == 1
              and _shows_decimals(forms)}  # fmt: skip
    found = {}
    for column, (cells, forms, words) in open_columns.items():
        form, note = _one(column, cells, forms, proven, decimal, separator, (*missing, *words), name)
        values = _values(cells, form, (*missing, *words))
        found[column] = Numbers(values, replace(form, suffix=suffixes.get(column, "")), words)
        notes += note
    return found, odd, notes


def _filled(cells: Any, missing: Sequence[str]) -> Any:
    """The distinct cells that are not empty."""
    cells = pc.unique(cells.drop_null())
    return cells.filter(pc.invert(pc.is_in(cells, pa.array([*USUAL, *missing], cells.type))))


def _forms(filled: Any) -> tuple[list[NumberForm], tuple[str, ...], str]:
    """Formats that all cells fit, except a few words; else the reason why a column of numbers fits none."""
    filled = pc.replace_substring(filled, "\u2212", "-")
    if not len(filled):
        return [NumberForm()], (), ""
    digits = pc.match_substring_regex(filled, r"\d")
    numeric, words = filled.filter(digits), filled.filter(pc.invert(digits)).to_pylist()
    codes = [word for word in numeric.slice(0, 1000).to_pylist() if word.startswith("#")]
    if codes:  # #DIV/0! of a spreadsheet
        numeric = numeric.filter(pc.invert(pc.match_substring_regex(numeric, "^#")))
        words += codes
    if not len(numeric) or len(words) > MOST_WORDS or len(words) > len(numeric) + 2:
        return [], (), ""
    fitting = [form for form, pattern in _FORMS if pc.all(pc.match_substring_regex(numeric, pattern)).as_py()]
    if fitting:
        return fitting, tuple(words), ""
    most, (form, pattern) = max(
        ((pc.sum(pc.match_substring_regex(numeric, pattern)).as_py(), (form, pattern)) for form, pattern in _FORMS),
        key=lambda each: each[0],
    )
    if most < len(numeric) / 2:
        return [], (), ""
    strange = numeric.filter(pc.invert(pc.match_substring_regex(numeric, pattern)))[0].as_py()
    return [], (), f"its cells are no numbers in one way of writing: {strange!r} beside those with {_said(form)}"


def _suffix(filled: Any) -> str:
    """The unit after all numbers of a column, with the blank before it; "" without one."""
    numeric = filled.filter(pc.match_substring_regex(filled, r"^[+-]?[.,]?\d"))
    if not len(numeric):
        return ""
    suffixes = pc.struct_field(pc.extract_regex(numeric, _WITH_UNIT), "suffix")
    if isinstance(suffixes, pa.ChunkedArray):
        suffixes = suffixes.combine_chunks()
    different = pc.unique(suffixes).to_pylist()
    if len(different) != 1 or different[0] is None or different[0].strip() not in _UNITS:
        return ""
    if len(different[0].strip()) == 1 and different[0].strip().isalpha():
        decimals = pc.any(pc.match_substring_regex(numeric, r"\d[.,]\d")).as_py()
        return str(different[0]) if decimals else ""
    return str(different[0])


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
    """Whether every number has exactly three digits after its point."""
    cells = distinct.filter(pc.match_substring_regex(distinct, r"^[+-]?\d"))
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
