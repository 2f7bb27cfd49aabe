"""The output of a batch of records for all topics: rows, dead letters, announcements, and their origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from glaim_stream.core.rejects import Reject
from glaim_stream.decode import DeadLetter
from glaim_stream.output.announcements import Announcement
from glaim_stream.output.quality.records import Record


@dataclass(frozen=True, slots=True)
class Message:
    """One message of rows for the output topic."""

    value: bytes
    rows: int
    model: str
    observed: int = 0  # rows that hold a reading


@dataclass(frozen=True, slots=True)
class Origin:
    """The last input record that the output includes; goes into the output's headers."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Output:
    """The output of one batch of one input partition."""

    partition: int
    origin: Origin
    messages: Sequence[Message] = ()  # rows
    letters: Sequence[DeadLetter] = ()  # rejected readings, and those that are too late
    announcements: Sequence[Announcement] = ()  # outages
    due_rows: int = 0  # rows with a reading that the messages must hold, counted as the readings came
    quality: Sequence[Record] = ()  # live accuracy
    health: Sequence[Announcement] = ()  # events of sensor health
    rejects: Sequence[Reject] = ()  # rejects that the letters are made of


class Publisher(Protocol):
    """A publisher of output to its topics."""

    async def publish(self, output: Output) -> None:
        """Publish rows, outages, sensor health, live accuracy and dead letters; return when the broker has them.

        Rows, outages and live accuracy of one input partition are published in order.
        """
        ...
