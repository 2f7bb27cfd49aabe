"""A format of the input topic, and how to make one of a function that reads a single record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from glaim_stream.core.budget import Budget
from glaim_stream.core.readings import InputRecord
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.decode.arrow_streams import Claim
from glaim_stream.decode.dead_letters import key_text
from glaim_stream.decode.exact import LARGEST_EXACT
from glaim_stream.decode.groups import GroupIndex
from glaim_stream.decode.parsed import Parsed, Said, Stated, Time, positions, qualities, times_ms

Parse = Callable[[Sequence[InputRecord], Sequence[int], GroupIndex, list[Reject], Budget], list[Parsed]]
Measure = Callable[[Sequence[InputRecord], Sequence[int], Budget, list[Reject]], dict[int, Claim]]
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

    A record for which `read` raises ValueError, LookupError, TypeError or ArithmeticError becomes a dead letter.
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
                np.array([each.value for each in found], np.float64)
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
        sensors, times, values, groups, quality = zip(*stated, strict=True)
        return [
            Parsed(
                index.groups(groups),
                index.sensors(sensors),
                times_ms(times),
                np.array(values, np.float64),
                np.repeat(np.array(list(counts)), list(counts.values())),
                positions(list(counts.values())),
                qualities(quality),
                lambda row: Said(groups[row], sensors[row], times[row]),
                inexact=np.array([_is_inexact(each) for each in values]),
            )
        ]

    return Format(name, detect, parse)


def _is_inexact(value: object) -> bool:
    """Whether a value is an integer that a float of 64 bits cannot hold."""
    return isinstance(value, int) and abs(value) > LARGEST_EXACT and int(float(value)) != value
