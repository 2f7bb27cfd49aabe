"""What `glaim-stream replay` reads: a range of the input topic, or a file as messages. Found first, then replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from glaim_stream.commands.moments import bounds_ms
from glaim_stream.commands.options import OffsetFlags
from glaim_stream.commands.sources import (
    FileFlags,
    MessageFlags,
    PlantFlags,
    open_source,
    require_known_groups,
)

if TYPE_CHECKING:
    from glaim_stream.core.settings import Settings
    from glaim_stream.feed import Source
    from glaim_stream.feed.replay import Messages, ReplayReport, Target
    from glaim_stream.kafka import Range


@dataclass(frozen=True)
class TopicInput:
    """Ranges of the input topic: for each partition what warms its windows up, and what is replayed."""

    ranges: list[tuple[Range, Range]]

    @classmethod
    def find(
        cls,
        settings: Settings,
        offsets: OffsetFlags,
        since: str | None,
        until: str | None,
        timezone: str,
        *,
        warm_up: bool,
    ) -> TopicInput:
        """Find the offsets of the range that the flags choose.

        Raises:
            SettingsError: the broker or the topic is not there, or the range holds no record.
        """
        from glaim_stream.core.errors import SettingsError

        since_ms, until_ms = bounds_ms(since, until, timezone=timezone)
        ranges = asyncio.run(_ranges(settings, offsets, since_ms, until_ms, warm_up=warm_up))
        if not ranges:
            raise SettingsError(f"{settings.input_topic}: expected records in that range, found none")
        return cls(ranges)

    def describe(self, settings: Settings) -> Iterator[str]:
        """One line for each partition."""
        for warm, part in self.ranges:
            kept = " (all that retention has kept)" if len(warm) and warm.begin == part.oldest > 0 else ""
            yield (
                f"{part.topic}-{part.partition}: offsets {part.begin} to {part.end}, {len(part)} records; "
                f"windows warmed up by {len(warm)} before{kept}"
            )

    def late(self, report: ReplayReport) -> int:
        """0: the order of a topic is its producers', and the worker rejected the same readings."""
        return 0

    async def replay(self, settings: Settings, target: Target, *, close: bool | None) -> ReplayReport:
        """Replay the ranges; steps that are open at the end stay open unless `close` is True."""
        from glaim_stream.commands.console import progress_bar
        from glaim_stream.feed.replay import replay_ranges

        with progress_bar(settings.input_topic, "records") as progress:
            return await replay_ranges(settings, self.ranges, target=target, close=bool(close), on_progress=progress)


@dataclass(frozen=True)
class FileInput:
    """Messages of a file or of the simulated plant."""

    messages: Messages
    total: int
    summary: str
    name: str
    source: Source | None = None  # None: raw messages, which have not been decoded

    @classmethod
    def open(
        cls,
        file: Path | None,
        plant: PlantFlags,
        messages: MessageFlags,
        form: FileFlags,
        since: str | None,
        until: str | None,
        *,
        by_group: bool = False,
    ) -> FileInput:
        """Read a file's raw messages, or put its readings into messages, in order of time unless `by_group`.

        Raises:
            SettingsError: the file cannot be read, or holds no reading between the two times.
        """
        from glaim_stream.core.errors import SettingsError
        from glaim_stream.core.times import text_of_ms
        from glaim_stream.feed import plan_messages
        from glaim_stream.feed.replay import RAW_ENDINGS, holds_messages, planned, raw_messages

        if file is not None and file.suffix in RAW_ENDINGS and holds_messages(file):
            if since or until:
                raise SettingsError(f"{file}: --since and --until select readings; raw messages are replayed whole")
            raw = raw_messages(file)
            return cls(iter(raw), len(raw), f"{file}: {len(raw)} raw messages", str(file))
        source = open_source(file, plant, form, since=since, until=until)
        plan = plan_messages(source, messages.input_format, batch=messages.batch, by_group=by_group)
        first, last = text_of_ms(int(source.time_ms[0])), text_of_ms(int(source.time_ms[-1]))
        summary = (
            f"{len(source)} readings of {len(source.groups)} groups in {len(plan)} messages, from {first} to {last}"
        )
        if source.withheld:
            summary += f", without doubtful ones: {source.withheld_note}"
        return cls(planned(plan), len(plan), summary, str(file or "the plant"), source)

    def describe(self, settings: Settings) -> Iterator[str]:
        """One line.

        Raises:
            CatalogueError: the catalogue cannot be used.
            SettingsError: it has no model for any group of the file.
        """
        from glaim_stream.core.catalogue import read_catalogue

        rules = read_catalogue(settings.catalogue)
        if self.source is not None:
            require_known_groups(self.source, rules, self.name)
        yield f"{self.summary}, as {settings.partitions} partitions"

    def late(self, report: ReplayReport) -> int:
        """Readings of a table that were rejected as late although we chose their order; 0 for raw messages."""
        from glaim_stream.core.rejects import DeadLetterCause

        return 0 if self.source is None else report.counts.rejects[DeadLetterCause.TOO_LATE.value]

    async def replay(self, settings: Settings, target: Target, *, close: bool | None) -> ReplayReport:
        """Replay the messages; steps that are open at the end are published unless `close` is False."""
        from glaim_stream.commands.console import progress_bar
        from glaim_stream.feed.replay import replay_messages

        with progress_bar("replay", "messages") as progress:
            return await replay_messages(
                settings,
                self.messages,
                partitions=settings.partitions,
                total=self.total,
                target=target,
                close=close is not False,
                on_progress=progress,
            )


async def _ranges(
    settings: Settings, offsets: OffsetFlags, since_ms: int | None, until_ms: int | None, *, warm_up: bool
) -> list[tuple[Range, Range]]:
    from glaim_stream.core.catalogue import read_catalogue
    from glaim_stream.feed.replay import nothing_before, warm_up_range
    from glaim_stream.kafka import reader

    catalogue = read_catalogue(settings.catalogue)
    async with reader(settings) as consumer:
        ranges = await offsets.ranges(settings, consumer, since_ms, until_ms)
        return [
            (
                await warm_up_range(consumer, part, catalogue) if warm_up else nothing_before(part),
                part,
            )
            for part in ranges
            if len(part)
        ]
