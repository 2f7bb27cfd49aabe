"""Columns of readings before validation: the common result of all input formats."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import Quality

Time = int | float | str | None  # epoch milliseconds or ISO 8601
Stated = int | float | str | None  # quality: a name or a StatusCode
_SEVERITY = (Quality.GOOD, Quality.UNCERTAIN, Quality.BAD, Quality.BAD)  # indexed by the two top bits of a StatusCode
_PREFIXES = (("good", Quality.GOOD), ("uncertain", Quality.UNCERTAIN), ("bad", Quality.BAD))
_MAX_CHARS = 64  # the longest symbolic name has about 50; of a longer text only the beginning counts


class Said(NamedTuple):
    """Group, sensor and time as the record states them; for messages about a reading.

    fault: what was expected and found, of a reading whose value is no number or whose fields are of the wrong type.
    """

    group: str | None
    sensor: str | None
    time: Time
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Parsed:
    """Readings in order of arrival before validation; every column has length n."""

    group: NDArray[np.int64]  # GroupIndex.groups: a code, UNKNOWN_GROUP or NO_GROUP
    sensor: NDArray[np.int64]  # GroupIndex.sensors
    time_ms: NDArray[np.float64]  # NaN if it cannot be read
    value: NDArray[np.float64]  # NaN without a value
    record: NDArray[np.int64]  # index of its record in the batch
    position: NDArray[np.int64]  # position of the reading inside its record
    quality: NDArray[np.int8] | None  # None if no reading states one
    said: Callable[[int], Said]  # stated names and time by row
    typed_time: bool | NDArray[np.bool_] = False  # the times are of a type that states their unit
    inexact: bool | NDArray[np.bool_] = False  # the value was an integer that a float of 64 bits cannot hold
    faulty: bool | NDArray[np.bool_] = False  # the value was neither a number nor null; `said` names the fault

    def __len__(self) -> int:
        return len(self.record)


def joined(parts: Sequence[Parsed]) -> Parsed:
    """Join parts into one, in the order of their records."""
    if len(parts) == 1:
        return parts[0]
    record = np.concatenate([part.record for part in parts])
    order = np.argsort(record, kind="stable")
    starts = np.cumsum([0, *map(len, parts)])

    def column(columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(list(columns))[order]

    def said(row: int) -> Said:
        place = int(order[row])
        part = int(np.searchsorted(starts, place, side="right")) - 1
        return parts[part].said(place - int(starts[part]))

    return Parsed(
        column(part.group for part in parts),
        column(part.sensor for part in parts),
        column(part.time_ms for part in parts),
        column(part.value for part in parts),
        record[order],
        column(part.position for part in parts),
        None
        if all(part.quality is None for part in parts)
        else column(np.zeros(len(part), np.int8) if part.quality is None else part.quality for part in parts),
        said,
        any(np.any(part.typed_time) for part in parts)
        and column(np.full(len(part), part.typed_time, np.bool_) for part in parts),
        any(np.any(part.inexact) for part in parts)
        and column(np.full(len(part), part.inexact, np.bool_) for part in parts),
        any(np.any(part.faulty) for part in parts)
        and column(np.full(len(part), part.faulty, np.bool_) for part in parts),
    )


def no_number(sensor: str | None, found: object) -> str:
    """The fault of a value that is neither a number nor null, as `Said` states it."""
    if isinstance(found, str):
        shown = f"the text {found[:_MAX_CHARS]!r}"
    elif isinstance(found, bool):
        shown = str(found).lower()
    else:
        shown = {"dict": "an object", "list": "a list"}.get(type(found).__name__, f"a {type(found).__name__}")
    return f"expected a number or null as the value of {str(sensor)[:_MAX_CHARS]!r}, found {shown}"


def positions(counts: Sequence[int]) -> NDArray[np.int64]:
    """Position of each reading in its record: 0, 1, ... for every count."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1]) - np.repeat(ends - counts, counts)


def times_ms(times: Sequence[Time]) -> NDArray[np.float64]:
    """Epoch milliseconds of each time, NaN for what is not a time."""
    if not isinstance(times[0], str):
        try:
            return np.frombuffer(array("d", cast("Sequence[float]", times)))  # raises on text
        except (TypeError, OverflowError):  # some are ISO 8601, absent or too large
            pass
    return _by_distinct(times, _time_ms, np.float64)


def qualities(stated: Sequence[Stated]) -> NDArray[np.int8] | None:
    """vocabulary.Quality of each reading; None if no reading states one."""
    return _by_distinct(stated, quality_of, np.int8) if any(stated) else None


def _by_distinct(stated: Sequence[Any], convert: Callable[[Any], float], dtype: type[Any]) -> NDArray[Any]:
    """Convert each value; a repeated text, such as a step's time or `good`, is converted once.

    No number is a key: the hash of an integer is its remainder by 2**61 - 1, so a producer could choose a hundred
    thousand integers with the same hash, whose dictionary takes 11 s. The hash of a text depends on a secret.
    """
    converted = {text: convert(text) for text in {each for each in stated if isinstance(each, str)}}
    values = [converted[each] if isinstance(each, str) else convert(each) for each in stated]
    return np.array(values, dtype)


def _time_ms(time: Time) -> float:
    try:
        if not isinstance(time, str):
            return np.nan if time is None else float(time)
        moment = datetime.fromisoformat(time)
        return moment.timestamp() * 1000 if moment.tzinfo is not None else np.nan
    except (ValueError, OverflowError):
        return np.nan


def quality_of(given: str | float | None) -> Quality:
    """The vocabulary.Quality of an input record's `quality`.

    Args:
        given: a name that begins with good, uncertain or bad in any case (`Bad_SensorFailure`,
            `UncertainLastUsableValue`), or a StatusCode as a number or as its digits, decimal or `0x` hexadecimal.

    Returns:
        GOOD if nothing is stated. UNCERTAIN if the text or number has no known meaning: the value is used, and its row
        is marked uncertain.

    Source: OPC UA Part 4, 7.39: the severity of a StatusCode is its bits 31 and 30; 00 good, 01 uncertain, 10 bad.
    """
    if given is None:
        return Quality.GOOD
    return _of_text(given[:_MAX_CHARS]) if isinstance(given, str) else _of_code(given)


def _of_text(text: str) -> Quality:
    text = text.strip().lower()
    for prefix, quality in _PREFIXES:
        if text.startswith(prefix):
            return quality
    try:
        return _of_code(int(text, 16 if text.startswith("0x") else 10))
    except ValueError:
        return Quality.UNCERTAIN if text else Quality.GOOD


def _of_code(code: float) -> Quality:
    # A StatusCode is a uint32; encoders without unsigned integers write it as an int32, which has the same bits.
    return _SEVERITY[(int(code) >> 30) & 3] if -(2**31) <= code < 2**32 else Quality.UNCERTAIN
