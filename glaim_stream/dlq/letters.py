"""A dead letter as its topic holds it, read back: the original record, and what its headers say of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from glaim_stream.decode.dead_letters import HEADER_PREFIX, RECEIPT_HEADER, REQUEUED_HEADER, DeadLetterCause
from glaim_stream.errors import SettingsError

Place = tuple[int, int]  # partition and offset in the topic of the letters
Header = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter. `key`, `value` and `headers` are the original record's."""

    place: Place
    timestamp_ms: int  # when the letter was written
    cause: str  # of the first of its readings
    detail: str
    topic: str  # of the original, and its place there
    partition: int
    offset: int
    produced_ms: int
    positions: list[int] | None  # of the rejected readings in the record; None: the whole record
    cut_from_bytes: int | None  # the value is only the head of one of so many bytes
    requeued: int  # how often the record had been sent back before
    late_by_ms: list[int]
    key: bytes | None
    value: bytes | None
    headers: list[Header]

    @property
    def group(self) -> str | None:
        """The record's key, else the group that its JSON names; None where neither can be read."""
        try:
            if self.key:
                return self.key.decode()
            group = json.loads(self.value or b"")["group"]
            return group if isinstance(group, str) else None
        except (ValueError, KeyError, TypeError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class Filter:
    """Which letters are wanted; what is empty or None wants all."""

    causes: Sequence[str] = ()
    groups: Sequence[str] = ()
    places: Sequence[Place] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    _wanted: frozenset[Place] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = {cause.value for cause in DeadLetterCause}
        if unknown := sorted(set(self.causes) - known):
            raise SettingsError(f"expected a cause of {', '.join(sorted(known))}, found {', '.join(unknown)}")
        object.__setattr__(self, "_wanted", frozenset(self.places))

    def takes(self, letter: Letter) -> bool:
        """True for a letter that is wanted."""
        return (
            (not self.causes or letter.cause in self.causes)
            and (not self._wanted or letter.place in self._wanted)
            and (self.since_ms is None or letter.timestamp_ms >= self.since_ms)
            and (self.until_ms is None or letter.timestamp_ms < self.until_ms)
            and (not self.groups or letter.group in self.groups)
        )


def read_letter(record: Any) -> Letter | None:
    """The letter that a Kafka record is; None when it is none of this worker's."""
    ours: dict[str, bytes] = {name: value for name, value in record.headers if name.startswith(HEADER_PREFIX)}

    def text(name: str) -> str:
        return ours[HEADER_PREFIX + name].decode(errors="replace")

    try:
        return Letter(
            (record.partition, record.offset),
            record.timestamp,
            text("cause"),
            text("detail"),
            text("topic"),
            int(text("partition")),
            int(text("offset")),
            int(text("timestamp-ms")),
            [int(position) for position in json.loads(text("positions"))] if _has(ours, "positions") else None,
            int(text("cut-from-bytes")) if _has(ours, "cut-from-bytes") else None,
            _times(ours.get(REQUEUED_HEADER, b"")),
            [int(late) for late in json.loads(text("late-by-ms")).values()] if _has(ours, "late-by-ms") else [],
            record.key,
            record.value,
            [header for header in record.headers if not header[0].startswith(HEADER_PREFIX)],
        )
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def receipt(places: Sequence[Place]) -> tuple[bytes, list[Header]]:
    """(value, headers) of the message that says which letters have been sent back; it stands among the letters."""
    return json.dumps({"requeued": places}).encode(), [(RECEIPT_HEADER, b"requeued")]


def read_receipt(record: Any) -> list[Place] | None:
    """The letters that a receipt names; None for what is no receipt."""
    if all(name != RECEIPT_HEADER for name, _ in record.headers):
        return None
    try:
        return [(int(partition), int(offset)) for partition, offset in json.loads(record.value)["requeued"]]
    except (ValueError, KeyError, TypeError):
        return []


def place_of(text: str) -> Place:
    """PARTITION:OFFSET.

    Raises:
        SettingsError: it is none.
    """
    partition, _, offset = text.partition(":")
    if not (partition.isdecimal() and offset.isdecimal()):
        raise SettingsError(f"expected a letter as PARTITION:OFFSET, found {text!r}")
    return int(partition), int(offset)


def _times(text: bytes) -> int:
    """A count, 0 for what is none: a producer may have set the header, too."""
    return int(text) if text.isdigit() and len(text) < 10 else 0


def _has(ours: dict[str, bytes], name: str) -> bool:
    return HEADER_PREFIX + name in ours
