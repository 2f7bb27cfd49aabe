"""The topic of the letters, read whole: what it holds by cause, place and time, and what has been sent back already."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

from glaim_stream.dlq.letters import Filter, Letter, Place, read_letter, read_receipt
from glaim_stream.errors import SettingsError
from glaim_stream.kafka.ranges import Progress, Range, ranges_of, read_range, reader
from glaim_stream.settings import Settings


@dataclass(slots=True)
class Line:
    """Letters of one cause from one partition of the input."""

    letters: int = 0
    readings: int = 0  # rejected ones; a whole record counts as one
    came_back: int = 0  # after they had been sent back before
    requeued: int = 0
    first_ms: int = 0
    last_ms: int = 0
    places: list[Place] = field(default_factory=list)


@dataclass(slots=True)
class Survey:
    """What a topic of letters holds; `foreign` messages are no letters."""

    lines: dict[tuple[str, int], Line] = field(default_factory=dict)  # by cause and input partition
    requeued: set[Place] = field(default_factory=set)
    foreign: int = 0

    @property
    def letters(self) -> int:
        """All letters that the filter takes."""
        return sum(line.letters for line in self.lines.values())


async def letters_of(
    settings: Settings, topic: str, chosen: Filter, *, on_progress: Progress = lambda done, total: None
) -> AsyncIterator[Letter | list[Place] | None]:
    """What stands in the topic now, partition by partition: wanted letters, receipts, and None for what is neither.

    Raises:
        SettingsError: the broker or the topic is not there.
    """
    async with reader(settings) as consumer:
        # To the end whatever the filter says: a receipt comes later than its letter.
        ranges = await ranges_of(settings, consumer, topic, since_ms=chosen.since_ms)
        total = sum(map(len, ranges))
        done = 0
        for part in ranges:
            async for records in read_range(consumer, part):
                for record in records:
                    receipt = read_receipt(record)
                    if receipt is not None:
                        yield receipt
                        continue
                    letter = read_letter(record)
                    if letter is None or chosen.takes(letter):
                        yield letter
                done += len(records)
                on_progress(done, total)


async def survey(
    settings: Settings, topic: str, chosen: Filter, *, on_progress: Progress = lambda done, total: None
) -> Survey:
    """Count a topic's letters; values are not kept."""
    found = Survey()
    async for each in letters_of(settings, topic, chosen, on_progress=on_progress):
        if each is None:
            found.foreign += 1
        elif isinstance(each, list):
            found.requeued.update(each)
        else:
            line = found.lines.setdefault((each.cause, each.partition), Line(first_ms=each.timestamp_ms))
            line.letters += 1
            line.readings += 1 if each.positions is None else len(each.positions)
            line.came_back += each.requeued > 0
            line.first_ms = min(line.first_ms, each.timestamp_ms)
            line.last_ms = max(line.last_ms, each.timestamp_ms)
            line.places.append(each.place)
    for line in found.lines.values():
        line.requeued = sum(place in found.requeued for place in line.places)
    return found


async def original(consumer: Any, settings: Settings, letter: Letter) -> Any | None:
    """The record that a letter came from, as long as the input topic holds it."""
    try:
        (held,) = await ranges_of(settings, consumer, letter.topic, partitions=[letter.partition])
    except SettingsError:  # neither the topic nor the partition is there any more
        return None
    if not held.begin <= letter.offset < held.end:
        return None
    wanted: Range = replace(held, begin=letter.offset, end=letter.offset + 1)
    async for records in read_range(consumer, wanted, most=1):
        return records[0]
    return None
