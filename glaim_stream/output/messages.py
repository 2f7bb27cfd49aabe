"""What a batch of records caused, on its way to the topics: rows, letters, announcements, and where they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from glaim_stream.decode.dead_letters import DeadLetter
from glaim_stream.output.announcements import Announcement


@dataclass(frozen=True, slots=True)
class Message:
    """One message for the output topic."""

    value: bytes
    rows: int
    model: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Where output came from: the last record that it includes. Goes into the output's headers."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Output:
    """Everything that one batch of one input partition has to say."""

    partition: int
    origin: Origin
    messages: Sequence[Message] = ()  # rows
    letters: Sequence[DeadLetter] = ()  # what was refused or came too late
    announcements: Sequence[Announcement] = ()  # outages


class Publisher(Protocol):
    """Puts output on its topics; returns when the broker has acknowledged all of it."""

    async def publish(self, output: Output) -> None:
        """Publish rows and outages of one input partition, both in order, and the letters beside them."""
        ...
