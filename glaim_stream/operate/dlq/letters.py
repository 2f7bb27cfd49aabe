"""Dead letters read back from their topic: the original record, and the facts that the headers state about it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.rejects import DeadLetterCause
from glaim_stream.decode import HEADER_PREFIX, RECEIPT_HEADER, REQUEUED_HEADER, positions_of

Place = tuple[int, int]  # partition and offset in the letters' topic
Header = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter; `key`, `value` and `headers` are those of the original record."""

    place: Place
    timestamp_ms: int  # time at which the letter was written
    cause: str  # cause of its first reading
    detail: str
    topic: str  # topic of the original, and its place there
    partition: int
    offset: int
    produced_ms: int
    positions: list[int] | None  # positions of the rejected readings in the record; None: the whole record
    cut_from_bytes: int | None  # size of the original value, of which `value` is the beginning; None: all of it
    requeued: int  # number of times that the record had been sent back before it was rejected
    late_by_ms: list[int]  # lateness of each reading; the least and the greatest if the letter has more than a hundred
    key: bytes | None
    value: bytes | None
    headers: list[Header]

    @property
    def group(self) -> str | None:
        """The record's key, or the group that its JSON names; None if neither can be read."""
        try:
            if self.key:
                return self.key.decode()
            group = json.loads(self.value or b"")["group"]
            return group if isinstance(group, str) else None
        except (ValueError, KeyError, TypeError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """A selection of letters; empty fields and None select all."""

    causes: Sequence[str] = ()
    groups: Sequence[str] = ()
    places: Sequence[Place] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    _places: frozenset[Place] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = {cause.value for cause in DeadLetterCause}
        if unknown := sorted(set(self.causes) - known):
            raise SettingsError(f"expected a cause of {', '.join(sorted(known))}, found {', '.join(unknown)}")
        object.__setattr__(self, "_places", frozenset(self.places))

    def matches(self, letter: Letter) -> bool:
        """True for a letter of the selection."""
        return (
            (not self.causes or letter.cause in self.causes)
            and (not self._places or letter.place in self._places)
            and (self.since_ms is None or letter.timestamp_ms >= self.since_ms)
            and (self.until_ms is None or letter.timestamp_ms < self.until_ms)
            and (not self.groups or letter.group in self.groups)
        )


def read_letter(record: Any) -> Letter | None:
    """The letter that a Kafka record holds; None if no worker wrote it."""
    texts: dict[str, bytes] = {name: value for name, value in record.headers if name.startswith(HEADER_PREFIX)}

    def text(name: str) -> str:
        return texts[HEADER_PREFIX + name].decode(errors="replace")

    try:
        positions = positions_of(record.headers)
        return Letter(
            (record.partition, record.offset),
            record.timestamp,
            text("cause"),
            text("detail"),
            text("topic"),
            _number(text("partition")),
            _number(text("offset")),
            _number(text("timestamp-ms")),
            None if positions is None else positions.tolist(),
            int(text("cut-from-bytes")) if _has(texts, "cut-from-bytes") else None,
            _count(texts.get(REQUEUED_HEADER, b"")),
            _late_by_ms(texts),
            record.key,
            record.value,
            [header for header in record.headers if not header[0].startswith(HEADER_PREFIX)],
        )
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _late_by_ms(texts: dict[str, bytes]) -> list[int]:
    if _has(texts, "late-by-ms-range"):
        return [int(late) for late in texts[HEADER_PREFIX + "late-by-ms-range"].split(b"-")]
    found = json.loads(texts.get(HEADER_PREFIX + "late-by-ms", b"{}"))
    return [int(late) for late in found.values()]


def receipt(places: Sequence[Place]) -> tuple[bytes, list[Header]]:
    """(value, headers) of the message that names letters that have been sent back; it is kept among the letters."""
    return json.dumps({"requeued": places}).encode(), [(RECEIPT_HEADER, b"requeued")]


def read_receipt(record: Any) -> list[Place] | None:
    """The letters that a receipt names; None if the record is no receipt."""
    if all(name != RECEIPT_HEADER for name, _ in record.headers):
        return None
    try:
        return [(int(partition), int(offset)) for partition, offset in json.loads(record.value)["requeued"]]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return []


def place_of(text: str) -> Place:
    """The place that PARTITION:OFFSET names.

    Raises:
        SettingsError: the text has another form.
    """
    partition, _, offset = text.partition(":")
    if not (partition.isdecimal() and offset.isdecimal()):
        raise SettingsError(f"expected a letter as PARTITION:OFFSET, found {text!r}")
    return int(partition), int(offset)


def _number(text: str) -> int:
    """Parse a number of Kafka's.

    Raises:
        ValueError: the text is not such a number.
    """
    number = int(text)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"expected a number of 64 bits, found {len(text)} digits")
    return number


def _count(text: bytes) -> int:
    """Parse a count; 0 if the text is none, since a producer may have set the header too."""
    return int(text) if text.isdigit() and len(text) < 10 else 0


def _has(texts: dict[str, bytes], name: str) -> bool:
    return HEADER_PREFIX + name in texts
