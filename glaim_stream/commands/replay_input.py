"""What `glaim-stream replay` reads: a range of the input topic, or a file as messages. Found first, then replayed."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from glaim_stream.commands.moments import bounds_ms
from glaim_stream.commands.options import OffsetFlags
from glaim_stream.commands.sources import (
    FileFlags,
    MessageFlags,
    PlantFlags,
    open_pieces,
    open_source,
    require_known_groups,
)

if TYPE_CHECKING:
    from glaim_stream.core.settings import Settings
    from glaim_stream.feed import Source
    from glaim_stream.feed.replay import Content, Messages, ReplayReport, Target
    from glaim_stream.kafka import Range

_WORTH = 200_000  # records below which processes take longer to start than they save


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

    def replay(self, settings: Settings, target: Target, *, close: bool | None, jobs: int | None) -> ReplayReport:
        """Replay the ranges; steps that are open at the end stay open unless `close` is True."""
        from glaim_stream.commands.console import progress_bar
        from glaim_stream.feed.replay import Job, replay_topic

        records = sum(len(warm) + len(part) for warm, part in self.ranges)
        job = Job(settings, target, bool(close), _jobs(jobs, records))
        with progress_bar("replay", "records") as progress:
            return replay_topic(job, self.ranges, progress)


@dataclass
class FileInput:
    """Messages of a file or of the simulated plant."""

    content: list[Content]  # the messages; empty once they have been replayed
    summary: str
    name: str
    source: Source | None = None  # None: raw messages, which have not been decoded
    depends_on: Mapping[str, object] = field(default_factory=dict)  # what the messages depend on

    @property
    def messages(self) -> Messages:
        """Key, value and headers of each message."""
        from glaim_stream.feed.replay import messages_of

        return messages_of(self.content[0])

    @property
    def total(self) -> int:
        """Number of messages."""
        return len(self.content[0])

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
        from glaim_stream.feed import Source, plan_messages
        from glaim_stream.feed.replay import RAW_ENDINGS, holds_messages, raw_messages

        given = {"input": file or asdict(plant), "flags": [asdict(messages), asdict(form)]}
        if file is not None and file.suffix in RAW_ENDINGS and holds_messages(file):
            if since or until:
                raise SettingsError(f"{file}: --since and --until select readings; raw messages are replayed whole")
            raw = raw_messages(file)
            return cls([raw], f"{file}: {len(raw)} raw messages", str(file), None, given)
        if not (since or until or by_group) and (plain := open_pieces(file, messages, form)) is not None:
            source = Source.without_readings(plain.cells)
            summary = _summary(source, len(plain), len(plain), plain.first_ms, plain.last_ms)
            return cls([plain], summary, str(file), source, given)
        source = open_source(file, plant, form, since=since, until=until)
        plan = plan_messages(source, messages.input_format, batch=messages.batch, by_group=by_group)
        first_ms, last_ms = int(source.time_ms[0]), int(source.time_ms[-1])
        summary = _summary(source, len(source), len(plan), first_ms, last_ms)
        return cls([plan], summary, str(file or "the plant"), source, given)

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

    def replay(self, settings: Settings, target: Target, *, close: bool | None, jobs: int | None) -> ReplayReport:
        """Replay the messages; steps that are open at the end are published unless `close` is False."""
        from glaim_stream.commands.console import progress_bar
        from glaim_stream.feed.replay import Job, replay_file

        close = close is not False
        given = self.depends_on.get("input")
        written = [close, target.newest_only, target.rejects is not None, target.outages is not None]
        depends_on = {
            "input": _digest_of_file(given) if isinstance(given, Path) else given,
            "flags": [self.depends_on.get("flags"), self.summary, written],  # the summary has the span of the readings
            **_what_rows_depend_on(settings),
        }
        job = Job(settings, target, close, _jobs(jobs, self.total), depends_on)
        if self.source is not None:
            self.source = self.source.between(0, 0)  # its columns need the memory no longer
        with progress_bar("replay", "records") as progress:
            return replay_file(job, self.content, progress)


def _summary(source: Source, readings: int, messages: int, first_ms: int, last_ms: int) -> str:
    from glaim_stream.core.times import text_of_ms

    groups, span = len(source.groups), f"from {text_of_ms(first_ms)} to {text_of_ms(last_ms)}"
    withheld = f", without doubtful ones: {source.withheld_note}" if source.withheld else ""
    return f"{readings} readings of {groups} groups in {messages} messages, {span}{withheld}"


def _jobs(jobs: int | None, records: int) -> int:
    """The number of processes; one for few records unless it is stated."""
    from glaim_stream.core.cores import usable_cores

    return jobs or (usable_cores() if records >= _WORTH else 1)


def _what_rows_depend_on(settings: Settings) -> dict[str, object]:
    """Settings, catalogue, models and programs, as digests."""
    models = sorted(
        (str(path), path.stat().st_size, path.stat().st_mtime_ns)
        for path in settings.model_repository.rglob("*")
        if path.is_file()
    )
    return {
        "settings": _digest(settings.model_dump_json().encode()),
        "catalogue": _digest(settings.catalogue.read_bytes()),
        "models": _digest(repr(models).encode()),
        "program": [f"{name} {version(name)}" for name in ("glaim-stream", "numpy", "pyarrow")],
    }


def _digest_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
