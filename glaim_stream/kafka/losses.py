"""Offsets of the input that were gone before they were answered, and the event that reports them on the outage topic.

    {"kind": "lost", "topic": "sensor-readings", "partition": 3, "first": 1200, "until": 5000, "reason": "removed"}

The offsets `[first, until)` were removed by retention or by an operator before a worker had read them (`removed`), or
the topic was cut or made anew below what had been committed (`truncated`), or it was deleted and made anew under a
worker, whose position lies inside the new topic, so that it goes on there (`replaced`). The key is the topic and the
partition. An event may be repeated: a worker that starts before new records come finds the same range again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import msgspec

KIND = "lost"
Reason = Literal["removed", "truncated", "replaced"]


@dataclass(frozen=True, order=True, slots=True)
class Loss:
    """Offsets `[first, until)` of one partition."""

    topic: str
    partition: int
    first: int
    until: int
    reason: Reason

    def __len__(self) -> int:
        return max(0, self.until - self.first)

    @property
    def key(self) -> bytes:
        """The key of the event."""
        return f"{self.topic}-{self.partition}".encode()

    @property
    def value(self) -> bytes:
        """The event as JSON."""
        document = {"kind": KIND, "topic": self.topic, "partition": self.partition}
        document |= {"first": self.first, "until": self.until, "reason": self.reason}
        return json.dumps(document, ensure_ascii=False).encode()


class _Event(msgspec.Struct, tag_field="kind", tag=KIND):
    topic: str
    partition: int
    first: int
    until: int
    reason: Reason


def read_losses(messages: Iterable[bytes | None]) -> list[Loss]:
    """Losses among messages of the outage topic; other messages are skipped."""
    decoder = msgspec.json.Decoder(_Event)
    out = []
    for message in messages:
        try:
            event = decoder.decode(message or b"")
        except (msgspec.MsgspecError, UnicodeError):
            continue
        out.append(Loss(event.topic, event.partition, event.first, event.until, event.reason))
    return out


def lost_range(expected: int, found: int | None, start: int, end: int) -> tuple[int, int, Reason] | None:
    """Return the lost offsets and the reason; None if nothing is lost.

    Transaction markers, aborted transactions and compaction leave holes: only offsets before the start of the log, or
    after its end, are lost.

    Args:
        expected: the offset before which everything is answered or delivered.
        found: the first offset delivered instead; None while nothing was.
        start: oldest offset of the log.
        end: offset after the last one of the log.
    """
    if found is not None and found < expected:
        if end < expected or found <= start:  # the reader was set back, because its offset was beyond the end
            return (end if found <= end < expected else found), expected, "truncated"
        return None
    until = start if found is None else min(start, found)
    if until > expected:
        return expected, until, "removed"
    if found is None and end < expected:
        return end, expected, "truncated"
    return None
