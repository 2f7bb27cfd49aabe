"""Reads the letters' topic: letters and receipts one by one, and their counts by cause and input partition."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import Progress, Range, ranges_of, read_range, reader
from glaim_stream.operate.dlq.letters import Letter, LetterFilter, Place, read_letter, read_receipt


@dataclass(slots=True)
class LetterCount:
    """Number of letters of one cause from one input partition."""

    letters: int = 0
    readings: int = 0  # rejected readings; a letter of a whole record counts as one
    came_back: int = 0  # letters of records that had been sent back before
    requeued: int = 0  # letters that a receipt names
    first_ms: int = 0
    last_ms: int = 0
    places: list[Place] = field(default_factory=list)


@dataclass(slots=True)
class Survey:
    """Contents of a letters' topic; `foreign` messages are no letters."""

    counts: dict[tuple[str, int], LetterCount] = field(default_factory=dict)  # counts by cause and input partition
    requeued: set[Place] = field(default_factory=set)
    foreign: int = 0

    @property
    def letters(self) -> int:
        """Number of letters that match the filter."""
        return sum(count.letters for count in self.counts.values())


async def read_letters(
    settings: Settings, topic: str, chosen: LetterFilter, *, on_progress: Progress = lambda done, total: None
) -> AsyncIterator[Letter | list[Place] | None]:
    """Read the topic up to its present end; yield letters of the selection, receipts, and None for other messages.

    Raises:
        SettingsError: the broker or the topic is not there.
    """
    async with reader(settings) as consumer:
        # Read to the end even if the filter has an end: a receipt comes later than its letter.
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
                    if letter is None or chosen.matches(letter):
                        yield letter
                done += len(records)
                on_progress(done, total)


async def survey(
    settings: Settings, topic: str, chosen: LetterFilter, *, on_progress: Progress = lambda done, total: None
) -> Survey:
    """Count a topic's letters, without keeping their values.

    Raises:
        SettingsError: the broker or the topic is not there.
    """
    found = Survey()
    async for each in read_letters(settings, topic, chosen, on_progress=on_progress):
        if each is None:
            found.foreign += 1
        elif isinstance(each, list):
            found.requeued.update(each)
        else:
            count = found.counts.setdefault((each.cause, each.partition), LetterCount(first_ms=each.timestamp_ms))
            count.letters += 1
            count.readings += 1 if each.positions is None else len(each.positions)
            count.came_back += each.requeued > 0
            count.first_ms = min(count.first_ms, each.timestamp_ms)
            count.last_ms = max(count.last_ms, each.timestamp_ms)
            count.places.append(each.place)
    for count in found.counts.values():
        count.requeued = sum(place in found.requeued for place in count.places)
    return found


async def find_original(consumer: Any, settings: Settings, letter: Letter) -> Any | None:
    """The record that a letter came from; None if the input topic does not hold it.

    Whatever topic a letter names, only the input topic of the settings is read: anybody may write a letter.
    """
    if letter.topic != settings.input_topic:
        return None
    try:
        (held,) = await ranges_of(settings, consumer, settings.input_topic, partitions=[letter.partition])
    except SettingsError:  # the topic or the partition is no longer there
        return None
    if not held.begin <= letter.offset < held.end:
        return None
    wanted: Range = replace(held, begin=letter.offset, end=letter.offset + 1)
    async for records in read_range(consumer, wanted, most=1):
        return records[0]
    return None
