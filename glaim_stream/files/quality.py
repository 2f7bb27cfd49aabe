"""Finds columns that state the quality of readings, and the readings that they mark as bad.

A mark is bad by its words (Bad, Uncertain, Invalid, the codes of OPC, 0 of a column called validity), or by its shape:
a code in a column called quality, flag or qc whose readings are missing, constant or out of range, while those of the
most frequent code are not. Where words and shape disagree, the user is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError, listed

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]

_NAME = re.compile(
    r"(?<![a-z])(data[ _]?)?(quality([ _]?(code|flag|control))?|qualifier|qual|qc([ _]?(flag|code))?|qf|qa|q|validity|"
    r"is[ _]?valid|valid|flag|grade|opc[ _]?quality|status([ _]?code)?|_?cd)(?![a-z])",
    re.IGNORECASE,
)
_VALID = re.compile(r"valid", re.IGNORECASE)
_STATUS = re.compile(r"status|grade|(?<![a-z])cd", re.IGNORECASE)  # may tell of a machine, or of an approval
_GOOD = re.compile(r"good.*|valid|true|ok|okay|pass(ed)?|normal|accepted|approved|unchecked|estimated", re.IGNORECASE)
_BAD = re.compile(
    r"(bad|uncertain)(\W.*|[_\d].*|[a-z]+[ _]?[a-z]+)?|invalid|false|fail(ed)?|error|suspect|suspicious|"
    r"questionable|doubtful|rejected|poor|not ?good|faulty|fault|missing",
    re.IGNORECASE,
)
_OF_DATA = re.compile(r"good.*|valid|(bad|uncertain).*|invalid|suspect|questionable|doubtful|missing", re.IGNORECASE)
_OPC_GOOD, _OPC_MOST = 192, 255
_UA_UNCERTAIN = 2.0**30
_MOST_MARKS = 40  # different marks of a column
_ODD = 0.8  # share of the readings of a bad code that are missing, constant or out of range
_FEW = 2  # readings of a code that show its meaning


@dataclass(frozen=True, slots=True)
class QualityMarks:
    """A column of quality: the columns whose readings it marks, bool [R] of bad marks, and these marks."""

    column: str
    judges: tuple[str, ...]
    bad: Bools
    marks: tuple[str, ...]


def names_quality(column: str) -> bool:
    """Whether a column is called like one of quality."""
    return _NAME.search(_spaced(column)) is not None


def _spaced(column: str) -> str:
    """A name with blanks before its capitals: FlowQuality is Flow Quality."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column)


def speaks(column: str, cells: Any) -> bool:
    """Whether a column is one of quality by its name and words."""
    marks = _marks(cells) if names_quality(column) else None
    return marks is not None and bool(_by_words(column, marks[0]))


def qualities(
    columns: Mapping[str, Any], values: Mapping[str, Doubles], stated: Mapping[str, Sequence[str]], *,
    sensor_of_row: NDArray[np.int64] | None, group_of_row: NDArray[np.int64], name: str,
) -> list[QualityMarks]:  # fmt: skip
    """The columns of quality of a file.

    Args:
        columns: Arrow columns in the order of the file, without those of times, groups and sensors.
        values: readings by column; NaN where missing.
        stated: marks that the user stated as bad, by column; an empty one: none is.
        sensor_of_row: sensor of each row, if a row is one reading.
        group_of_row: group of each row.
        name: name of the file, for messages.

    Raises:
        SettingsError: it is unclear which marks are bad.
    """
    found: dict[str, tuple[list[str], NDArray[np.int64]]] = {}
    for column, cells in columns.items():
        if column not in stated and not names_quality(column):
            continue
        if (coded := _marks(cells)) is not None:
            found[column] = coded
    series = group_of_row
    if sensor_of_row is not None:
        series = group_of_row * (int(sensor_of_row.max(initial=0)) + 1) + sensor_of_row
    out = []
    for column, (marks, code) in found.items():
        readings = {each: value for each, value in values.items() if each not in found}
        judges = _judged(column, list(columns), list(readings), list(found), stated=column in stated)
        if not judges:
            continue
        if column in stated:
            bad = {mark for mark in marks if mark and mark in stated[column]}
        else:
            bad = _bad_marks(column, marks, code, [readings[each] for each in judges], series, name)
        if bad:
            is_bad = np.isin(code, [at for at, mark in enumerate(marks) if mark in bad])
            out.append(QualityMarks(column, tuple(judges), is_bad, tuple(sorted(bad))))
    return out


def note(quality: QualityMarks, count: int) -> str:
    """A sentence on a column of quality, and the number of readings that it marks as bad."""
    marks = listed([repr(each) for each in quality.marks])
    return (
        f"{quality.column!r} states the quality of {listed(list(quality.judges))}: {count:,} readings with {marks} are "
        f"kept as they are, and not used; --missing '{quality.column}=' uses them"
    )


def _marks(cells: Any) -> tuple[list[str], NDArray[np.int64]] | None:
    """The marks of a column as text, and the code of each row; None if they are too many, or no marks."""
    if pa.types.is_floating(cells.type):
        values = cells.to_numpy(zero_copy_only=False)
        known = values[np.isfinite(values)]
        if (known != np.rint(known)).any() or len(np.unique(known)) > _MOST_MARKS:
            return None
        cells = pc.cast(pc.cast(cells, pa.int64(), safe=False), pa.string())
    elif pa.types.is_integer(cells.type) or pa.types.is_boolean(cells.type) or pa.types.is_dictionary(cells.type):
        cells = pc.cast(cells, pa.string())
    elif not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return None
    encoded = pc.fill_null(cells, "").dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    if len(encoded.dictionary) > _MOST_MARKS:
        return None
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices, np.int64)


def _by_words(column: str, marks: Sequence[str]) -> set[str]:
    """The bad marks of a column whose words or codes leave one reading; empty if they leave none."""
    filled = [mark for mark in marks if mark]
    words = [mark for mark in filled if not mark.lstrip("-").replace(".", "").isdigit()]
    if words:
        plain = [mark.strip("[]() ") for mark in words]
        bad = {mark for mark, text in zip(words, plain, strict=True) if _BAD.fullmatch(text)}
        good = {mark for mark, text in zip(words, plain, strict=True) if _GOOD.fullmatch(text)}
        of_data = any(_OF_DATA.fullmatch(text) for text in plain)
        sure = good and bad and len(good) + len(bad) == len(filled)
        return bad if sure and (of_data or not _STATUS.search(column)) else set()
    numbers = {mark: float(mark) for mark in filled}
    opc = all(0 <= each <= _OPC_MOST and each % 4 == 0 for each in numbers.values())
    if opc and any(each >= _OPC_GOOD for each in numbers.values()):
        return {mark for mark, each in numbers.items() if each < _OPC_GOOD}
    if max(numbers.values(), default=0.0) >= _UA_UNCERTAIN and min(numbers.values()) == 0.0:
        # Status codes of OPC UA: the two highest of 32 bits are 0 if a value is good, else 1 or more.
        return {mark for mark, each in numbers.items() if each >= _UA_UNCERTAIN}
    if _VALID.search(column) and set(numbers.values()) == {0.0, 1.0}:
        return {mark for mark, each in numbers.items() if each == 0.0}
    return set()


def _bad_marks(
    column: str, marks: Sequence[str], code: NDArray[np.int64], readings: Sequence[Doubles],
    series: NDArray[np.int64], name: str,
) -> set[str]:  # fmt: skip
    """The bad marks of a column, by words, else by the shape of the readings.

    Raises:
        SettingsError: words and shape disagree, or the readings of the most frequent mark are the odd ones.
    """
    counts = np.bincount(code, minlength=len(marks))
    said = _by_words(column, marks)
    if any(mark.strip("[]()")[:1].isalpha() for mark in said):
        return said
    usual = int(np.argmax(counts)) if not said else max(
        (at for at, mark in enumerate(marks) if mark not in said), key=lambda at: int(counts[at])
    )  # fmt: skip
    if len(marks) < 2:
        return set()
    odd = {at: _oddness(code == at, code == usual, readings, series) for at in range(len(marks)) if at != usual}
    for at in odd:
        if _varies(code == at, readings) and not _varies(code == usual, readings) and counts[usual] > _FEW:
            raise SettingsError(
                f"{name}: {column!r} may state the quality of readings, and it is unclear which of its marks are bad: "
                f"the readings with {marks[usual]!r} ({counts[usual]:,}) are missing or all the same, those with "
                f"{marks[at]!r} ({counts[at]:,}) are not: state the bad one as --missing '{column}={marks[usual]}', or "
                f"--missing '{column}=' if none is"
            )
    if said:
        return said
    if counts[usual] < len(code) / 2 or _STATUS.search(column):
        return set()
    return {marks[at] for at, share in odd.items() if share >= _ODD and counts[at] >= _FEW and marks[at]}


def _oddness(mine: Bools, usual: Bools, readings: Sequence[Doubles], series: NDArray[np.int64]) -> float:
    """The share of some cells that are missing, constant, or out of the range of the usual ones."""
    odd = total = 0
    for values in readings:
        known = np.isfinite(values)
        for code in np.unique(series[mine]).tolist():
            ours, others = mine & (series == code), values[usual & known & (series == code)]
            here = values[ours & known]
            total += int(ours.sum())
            odd += int((ours & ~known).sum())
            if not len(here) or not len(others):
                continue
            levels, counts = np.unique(here, return_counts=True)
            most = levels[np.argmax(counts)]
            constant = counts.max() >= max(_FEW, _ODD * len(here)) and (others == most).mean() < 0.2
            out = (here < others.min()) | (here > others.max())
            odd += len(here) if constant else int(out.sum())
    return odd / total if total else 0.0


def _varies(mine: Bools, readings: Sequence[Doubles]) -> bool:
    """Whether the readings of some rows are not mostly missing or the same."""
    for values in readings:
        known = values[mine & np.isfinite(values)]
        counts = np.unique(known, return_counts=True)[1]
        if counts.max(initial=0) + mine.sum() - len(known) < _ODD * mine.sum() and len(counts) > _FEW:
            return True
    return False


def _judged(
    column: str, columns: Sequence[str], sensors: Sequence[str], qualities: Sequence[str], *, stated: bool
) -> list[str]:
    """The sensors whose readings a column of quality marks; none where that is unclear."""
    base = _plain(_NAME.sub("", _spaced(column)))
    if base:
        named = [each for each in sensors if _plain(each) == base or _plain(_NAME.sub("", _spaced(each))) == base]
        named = named or [each for each in sensors if _without_unit(each) == base]
        if named:
            return named
    at = columns.index(column)
    before = columns[at - 1] if at else ""
    if before in sensors and sum(each in qualities for each in columns) > 1 and len(sensors) > 1:
        return [before]
    if (
        len(sensors) == 1
        or (not base and sum(not _plain(_NAME.sub("", _spaced(each))) for each in qualities) == 1)
        or stated
    ):
        return list(sensors)
    return []


def _plain(text: str) -> str:
    return re.sub(r"value|val$|reading|[^a-z0-9]+", "", text.lower())


def _without_unit(text: str) -> str:
    return _plain(re.sub(r"[\[(].*?[\])]", "", text))
