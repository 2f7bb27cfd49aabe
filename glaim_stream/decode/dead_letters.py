"""Dead letters: unusable records, kept unchanged, with the reason in their headers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class DeadLetterCause(StrEnum):
    """Why a reading or a whole record went to the dead-letter topic."""

    UNDECODABLE = "undecodable"  # not the JSON or Arrow that its content-type announces
    MALFORMED = "malformed"  # a field is missing or has the wrong type
    UNKNOWN_GROUP = "unknown-group"
    UNKNOWN_SENSOR = "unknown-sensor"
    BAD_TIME = "bad-time"  # no time, a time without a zone, or one outside the years 1900 to 2200
    TS_UNIT = "ts-unit"  # a number that is no plausible time in milliseconds, but one in another unit
    FUTURE = "future"  # stamped further ahead of its record than allowed, or beyond the wall clock with it
    OUT_OF_LIMITS = "out-of-limits"  # infinite, or outside the sensor's physical limits
    TOO_LATE = "too-late"  # older than the window; goes to a separate topic
    PROCESSING = "processing"  # an internal error of the worker; kept for requeueing


class InputRecord(Protocol):
    """The fields of a Kafka record that decoding uses; the records of aiokafka and kafka-python both fit."""

    @property
    def key(self) -> bytes | None:
        """The producer's key; the group of a record that names none."""
        ...

    @property
    def value(self) -> bytes | None:
        """The payload."""
        ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """The headers; `content-type` selects the format."""
        ...

    @property
    def offset(self) -> int:
        """Offset in the partition."""
        ...

    @property
    def timestamp(self) -> int:
        """Time of production, epoch milliseconds; negative if the record has none."""
        ...


def key_text(record: InputRecord) -> str | None:
    """The record's key as text; None if it is absent, empty or not UTF-8."""
    try:
        return record.key.decode() if record.key else None
    except UnicodeDecodeError:
        return None


@dataclass(frozen=True, slots=True)
class Reject:
    """An unusable reading, or a whole record if `position` is None."""

    offset: int
    cause: DeadLetterCause
    detail: str
    position: int | None = None
    late_by_ms: int | None = None  # distance behind the watermark of a reading that is too late


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message for the dead-letter topic or the late topic, with the key and value of the original record."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    late: bool = False


HEADER_PREFIX = "glaim-"
RECEIPT_HEADER = HEADER_PREFIX + "receipt"  # marks a message among the letters that lists the requeued ones
REQUEUED_HEADER = HEADER_PREFIX + "requeued"  # how often a record was requeued; its next letter keeps it
MAX_DETAIL_CHARS = 500  # a detail quotes input of any length


def dead_letter(record: InputRecord, rejects: Sequence[Reject], *, topic: str, partition: int) -> DeadLetter:
    """Make the dead letter of one record from its rejects.

    Headers added to those of the original: `glaim-cause` and `glaim-detail` (of the first reject), `glaim-topic`,
    `glaim-partition`, `glaim-offset`, `glaim-timestamp-ms`, and `glaim-positions`, a JSON list of the rejected
    readings' positions in the record, absent if the whole record was rejected. A letter of readings that are too late
    also has `glaim-late-by-ms`, a JSON object with each reading's distance behind the watermark, by its position.
    """
    first = rejects[0]
    added = {
        "cause": first.cause.value,
        "detail": first.detail[:MAX_DETAIL_CHARS],
        "topic": topic,
        "partition": str(partition),
        "offset": str(record.offset),
        "timestamp-ms": str(record.timestamp),
    }
    positions = sorted({reject.position for reject in rejects if reject.position is not None})
    if all(reject.position is not None for reject in rejects):
        added["positions"] = json.dumps(positions)
    late_by_ms = {reject.position: reject.late_by_ms for reject in rejects if reject.late_by_ms is not None}
    if late_by_ms:
        added["late-by-ms"] = json.dumps(late_by_ms)
    headers = [
        header for header in record.headers if not header[0].startswith(HEADER_PREFIX) or header[0] == REQUEUED_HEADER
    ]
    headers += [(HEADER_PREFIX + name, text.encode(errors="backslashreplace")) for name, text in added.items()]
    return DeadLetter(record.key, record.value, headers, late=first.cause is DeadLetterCause.TOO_LATE)


def dead_letters(
    records: Sequence[InputRecord], rejects: Sequence[Reject], *, topic: str, partition: int
) -> list[DeadLetter]:
    """Make the dead letters of a batch, in the order of its records.

    A record with readings that are too late and others that are unusable has two letters, one for each topic.
    """
    by_offset: dict[int, tuple[list[Reject], list[Reject]]] = {}
    for reject in rejects:
        by_offset.setdefault(reject.offset, ([], []))[reject.cause is DeadLetterCause.TOO_LATE].append(reject)
    if not by_offset:
        return []
    return [
        dead_letter(record, part, topic=topic, partition=partition)
        for record in records
        for part in by_offset.get(record.offset, ())
        if part
    ]


def positions_of(headers: Sequence[tuple[str, bytes]]) -> set[int] | None:
    """The rejected readings' positions in their record; None if the whole record was rejected."""
    for name, text in headers:
        if name == HEADER_PREFIX + "positions":
            return set(json.loads(text))
    return None
