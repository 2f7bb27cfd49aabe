"""The output of a batch of records for all topics: rows, dead letters, announcements, and their origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from glaim_stream.core.rejects import Reject
from glaim_stream.decode import DeadLetter
from glaim_stream.output.announcements import Announcement
from glaim_stream.output.quality.records import Record
from glaim_stream.output.records import read_rows, without_dictionaries


@dataclass(frozen=True, slots=True)
class Message:
    """One message of rows for the output topic."""

    value: bytes
    rows: int
    model: str
    observed: int = 0  # rows that hold a reading

    def table(self) -> pa.Table:
        """The rows, with names as strings; `glaim-stream schema` describes the columns."""
        return without_dictionaries(read_rows(self.value))


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
    records: int = 0  # records that caused it

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to publish."""
        return not (self.messages or self.letters or self.announcements or self.quality or self.health)


class Publisher(Protocol):
    """A publisher of output to its topics."""

    async def publish(self, output: Output) -> None:
        """Publish rows, outages, sensor health, live accuracy and dead letters; return when the broker has them.

        Rows, outages and live accuracy of one input partition are published in order.
        """
        ...


class Sink(Protocol):
    """A destination of rows, registered in the group `glaim_stream.outputs` as a function of a text and the settings.

    guarantee: what holds for rows after `write` has returned, and for the rows of a run that is repeated.
    """

    guarantee: str

    async def open(self, offsets: Mapping[int, int]) -> Mapping[int, int]:
        """Prepare for rows; called once, before anything is written.

        Args:
            offsets: by input partition, the offset of the first record whose rows will be written.

        Returns:
            The same, or the offsets that the sink stored with its rows before; a run that begins earlier is refused.

        Raises:
            SettingsError: the sink cannot be used.
        """
        ...

    async def write(self, outputs: Sequence[Output]) -> None:
        """Write the rows, `table()` of each of `messages`, and return once `guarantee` holds. An error ends the run.

        The outputs of a partition come in order; a sink that stores offsets stores `origin.offset + 1` with the rows.
        """
        ...

    async def close(self, *, complete: bool) -> None:
        """Release everything; called once after `open`, without `complete` if the run has failed."""
        ...
