"""A format of the input topic, and how to make one of a function that reads a single record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from numbers import Real
from typing import NamedTuple

import numpy as np

from glaim_stream.core.budget import Budget
from glaim_stream.core.readings import InputRecord
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.decode.arrow_streams import Claim
from glaim_stream.decode.dead_letters import key_text
from glaim_stream.decode.exact import LARGEST_EXACT
from glaim_stream.decode.groups import GroupIndex
from glaim_stream.decode.parsed import Parsed, Said, Stated, Time, no_number, positions, qualities, times_ms

Parse = Callable[[Sequence[InputRecord], Sequence[int], GroupIndex, list[Reject], Budget], list[Parsed]]
Measure = Callable[[Sequence[InputRecord], Sequence[int], Budget, list[Reject]], dict[int, Claim]]
_TIMES = (Real, str, type(None))  # types of times and of qualities
_UNUSABLE = (ValueError, LookupError, TypeError, ArithmeticError)  # errors of a record that cannot be read


@dataclass(frozen=True, slots=True)
class Format:
    """A format of records. Its functions take a batch and places in it, and add broken records to the rejects.

    detect: whether a record is of this format, by its headers or the first bytes of its value.
    parse: the readings of records, in one or more parts.
    measure: the size of each record that is not rejected, before any is decoded; None: records are measured by their
        bytes, and one has at most `budget.record_json_bytes`.
    """

    name: str
    detect: Callable[[InputRecord], bool]
    parse: Parse
    measure: Measure | None = None


class StatedReading(NamedTuple):
    """A reading as a record states it."""

    sensor: str
    ts: Time  # epoch milliseconds, or ISO 8601 with a zone
    value: float | None  # None: a reported dropout
    group: str | None = None  # None: the record's key
    quality: Stated = None  # good, uncertain, bad, an OPC UA name or a StatusCode; None: good


def record_format(
    name: str, detect: Callable[[InputRecord], bool], read: Callable[[InputRecord], Iterable[StatedReading]]
) -> Format:
    """Make a format of a function that reads one record.

    A record for which `read` raises ValueError, LookupError, TypeError or ArithmeticError becomes a dead letter. A
    reading whose value is not a number or null, or whose other fields are of the wrong type, is rejected alone.
    """

    def parse(
        records: Sequence[InputRecord],
        places: Sequence[int],
        index: GroupIndex,
        rejects: list[Reject],
        budget: Budget,
    ) -> list[Parsed]:
        stated: list[StatedReading] = []
        counts: dict[int, int] = {}
        most = budget.record_readings
        for place in places:
            record = records[place]
            try:
                found = list(islice(read(record), most + 1))
            except _UNUSABLE as error:
                detail = f"not readable as {name}: {error}"
                rejects.append(Reject(record.offset, DeadLetterCause.UNDECODABLE, detail))
                continue
            if not 0 < len(found) <= most:
                cause = DeadLetterCause.TOO_LARGE if found else DeadLetterCause.MALFORMED
                detail = f"expected 1 to {most} readings in one record, found {'more' if found else 'none'}"
                rejects.append(Reject(record.offset, cause, detail))
                continue
            counts[place] = len(found)
            stated += [each if each.group is not None else each._replace(group=key_text(record)) for each in found]
        if not stated:
            return []
        faults = {row: fault for row, each in enumerate(stated) if (fault := _fault(each))}
        for row in faults:
            stated[row] = _without_faults(stated[row])
        sensors, times, values, groups, quality = zip(*stated, strict=True)
        numbers = np.array([_float(each) for each in values], np.float64)
        faulty = np.zeros(len(stated), np.bool_)
        faulty[list(faults)] = True
        return [
            Parsed(
                index.groups(groups),
                index.sensors(sensors),
                times_ms(times),
                numbers,
                np.repeat(np.array(list(counts)), list(counts.values())),
                positions(list(counts.values())),
                qualities(quality),
                lambda row: Said(groups[row], sensors[row], times[row], faults.get(row, "")),
                inexact=np.array(list(map(_is_inexact, values, numbers.tolist()))),
                faulty=faulty,
            )
        ]

    return Format(name, detect, parse)


def _fault(stated: StatedReading) -> str:
    """What is wrong with the types of a reading's fields; empty for nothing."""
    for name, kinds, found in _fields(stated):
        if isinstance(found, bool) or not isinstance(found, kinds):
            return f"expected {name} of another type, found a {type(found).__name__}"
    return "" if _is_number(stated.value) else no_number(stated.sensor, stated.value)


def _without_faults(stated: StatedReading) -> StatedReading:
    """A faulty reading without the fields of the wrong type; without a sensor unless its value alone is wrong."""
    right = {name: isinstance(found, kinds) and not isinstance(found, bool) for name, kinds, found in _fields(stated)}
    kept = stated._replace(value=stated.value if _is_number(stated.value) else None)
    kept = kept._replace(**{name: None for name, is_right in right.items() if not is_right})  # type: ignore[arg-type]
    return kept if all(right.values()) else kept._replace(sensor=None)  # type: ignore[arg-type]


def _fields(stated: StatedReading) -> Iterable[tuple[str, tuple[type, ...], object]]:
    """Name, types and content of the fields other than the value."""
    yield "sensor", (str,), stated.sensor
    yield "group", (str, type(None)), stated.group
    yield "ts", _TIMES, stated.ts
    yield "quality", _TIMES, stated.quality


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (Real, Decimal)) and not isinstance(value, bool))


def _is_inexact(value: object, number: float) -> bool:
    """Whether a value is an integer that its float does not equal."""
    return isinstance(value, int | np.integer) and LARGEST_EXACT <= abs(number) < np.inf and int(number) != value


def _float(value: float | None) -> float:
    """A value as the nearest float; NaN for null."""
    try:
        return np.nan if value is None else float(value)
    except OverflowError:  # an integer beyond the largest float is outside of every limit
        return np.inf if value is not None and value > 0 else -np.inf
