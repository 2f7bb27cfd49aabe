"""What becomes of input that cannot be used: the original record, kept whole, with the reason in its headers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class DeadLetterCause(StrEnum):
    """Why a reading or a whole record went to the dead-letter topic."""

    UNDECODABLE = "undecodable"  # neither JSON nor Arrow as its content-type says
    MALFORMED = "malformed"  # a field is missing or has the wrong type
    UNKNOWN_GROUP = "unknown-group"
    UNKNOWN_SENSOR = "unknown-sensor"
    BAD_TIME = "bad-time"  # no time, or one without a zone
    FUTURE = "future"  # stamped further ahead of its record than the catalogue allows
    OUT_OF_LIMITS = "out-of-limits"  # infinite, or outside the sensor's physical limits
    TOO_LATE = "too-late"  # older than the window; goes to a topic of its own
    PROCESSING = "processing"  # the worker itself failed on it: a fault of ours, kept for requeueing


class InputRecord(Protocol):
    """What of a Kafka record is used here; aiokafka's and kafka-python's records both fit."""

    @property
    def key(self) -> bytes | None:
        """The producer's key; the group where a record names none."""
        ...

    @property
    def value(self) -> bytes | None:
        """The payload."""
        ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Among them `content-type`."""
        ...

    @property
    def offset(self) -> int:
        """Place in the partition."""
        ...

    @property
    def timestamp(self) -> int:
        """When it was produced, epoch milliseconds."""
        ...


def key_text(record: InputRecord) -> str | None:
    """The record's key as text, None where it is empty or is none."""
    try:
        return record.key.decode() if record.key else None
    except UnicodeDecodeError:
        return None


@dataclass(frozen=True, slots=True)
class Reject:
    """A reading that cannot be used, or a whole record when `position` is None."""

    offset: int
    cause: DeadLetterCause
    detail: str
    position: int | None = None
    late_by_ms: int | None = None  # how far behind the watermark; of a reading that is too late


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message for the dead-letter topic, or for the late topic: key and value are the original's bytes."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    late: bool = False


HEADER_PREFIX = "glaim-"
RECEIPT_HEADER = HEADER_PREFIX + "receipt"  # of a message among the letters: which of them were sent back
REQUEUED_HEADER = HEADER_PREFIX + "requeued"  # how often a record was sent back; its next letter keeps it
MAX_DETAIL_CHARS = 500  # a detail quotes input, which has no bound of its own


def dead_letter(record: InputRecord, rejects: Sequence[Reject], *, topic: str, partition: int) -> DeadLetter:
    """Make the dead letter of one record from all that was rejected of it.

    Headers added to the original's: `glaim-cause` and `glaim-detail` (of the first reject), `glaim-topic`,
    `glaim-partition`, `glaim-offset`, `glaim-timestamp-ms`, and `glaim-positions`, a JSON list of the rejected
    readings' places in the record, absent when the whole record was rejected. A letter of readings that are too late
    has `glaim-late-by-ms` as well, a JSON object: how far behind the watermark each was, by its place in the record.
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
    """Make the letters of a batch, in the order of its records.

    A record of which some readings are too late and others cannot be used has two, one for each topic.
    """
    of_record: dict[int, tuple[list[Reject], list[Reject]]] = {}
    for reject in rejects:
        of_record.setdefault(reject.offset, ([], []))[reject.cause is DeadLetterCause.TOO_LATE].append(reject)
    if not of_record:
        return []
    return [
        dead_letter(record, part, topic=topic, partition=partition)
        for record in records
        for part in of_record.get(record.offset, ())
        if part
    ]


def positions_of(headers: Sequence[tuple[str, bytes]]) -> set[int] | None:
    """The rejected readings' places in their record; None when the whole record was rejected."""
    for name, text in headers:
        if name == HEADER_PREFIX + "positions":
            return set(json.loads(text))
    return None
