"""The completeness of a range of the output topic, with the readings of the late topic."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import tzinfo
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from aiokafka import AIOKafkaConsumer

from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.core.errors import RecordError, SettingsError, unknown_name
from glaim_stream.core.settings import Settings
from glaim_stream.core.times import moment_ms, text_of_ms
from glaim_stream.decode import UNKNOWN_GROUP, Decoder, positions_of
from glaim_stream.kafka import Range, partitions_of, ranges_of, read_range, reader
from glaim_stream.operate.completeness.counts import counted
from glaim_stream.operate.completeness.days import Days
from glaim_stream.operate.completeness.report import CompletenessReport, worst_first
from glaim_stream.operate.completeness.rows import TopicRows
from glaim_stream.operate.database import database

_LEAD_MS = 3_600_000  # largest difference between the clocks of producers, broker and workers
_FIRST_MESSAGES = 10  # messages of a partition that retention cut: one closes a step, and does not only correct some
_MOST_RECORDS = 2000  # most records in memory at a time, unpacked

Progress = Callable[[int, int], object]  # records done, records in all


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """The options of a report.

    Attributes:
        zone: time zone of the days.
        since_ms: earliest start of a step to count, epoch ms.
        until_ms: latest end of a step to count, epoch ms.
        groups: names or shell patterns; empty for all.
        temp_folder: folder of the rows that do not fit into memory; None for the system's.
    """

    zone: tzinfo
    since_ms: int | None = None
    until_ms: int | None = None
    groups: Sequence[str] = ()
    temp_folder: Path | None = None


@dataclass(slots=True)
class _Read:
    """Facts that were read beside the rows."""

    unread_rows: int = 0
    unread_late: int = 0
    late_topic: bool = True
    retained_ms: int | None = None  # time before which retention may have removed rows


class _Event(msgspec.Struct):
    group: str
    ts: str
    last_ts: str | None = None


def topic_report(
    settings: Settings, request: ReportRequest, *, on_progress: Progress = lambda done, total: None
) -> CompletenessReport:
    """Report on the rows of the output topic.

    Reads without a consumer group, from an hour before `since_ms` to where the topics end now, and changes nothing.
    Memory holds some 400 bytes for each sensor and 70 for each of its days, and does not grow with the rows: what these
    take beyond 128 MB lies in a temporary folder.

    Raises:
        SettingsError: the broker, the output topic or a wanted group is not there, or the temporary folder takes no
            more.
        CatalogueError: the catalogue cannot be used.
    """
    return asyncio.run(_topic_report(settings, request, on_progress))


async def _topic_report(settings: Settings, request: ReportRequest, on_progress: Progress) -> CompletenessReport:
    catalogue = read_catalogue(settings.catalogue)
    async with AsyncExitStack() as stack:
        rows_database = stack.enter_context(database(request.temp_folder))
        file = TopicRows(rows_database, catalogue, since_ms=request.since_ms, until_ms=request.until_ms)
        consumer = await stack.enter_async_context(reader(settings))
        begin_ms = (
            None if request.since_ms is None else request.since_ms - _LEAD_MS - round(catalogue.max_ahead_s * 1e3)
        )
        # Rows are read first: a reading too late for one of them is in the late topic by then.
        rows = await ranges_of(settings, consumer, settings.output_topic, since_ms=begin_ms)
        found = _Read(late_topic=bool(await partitions_of(settings, settings.late_topic)))
        outages = await partitions_of(settings, settings.outage_topic)
        late = await ranges_of(settings, consumer, settings.late_topic, since_ms=begin_ms) if found.late_topic else []
        events = await ranges_of(settings, consumer, settings.outage_topic) if outages else []
        reading = _Reading(settings, consumer, file, found, on_progress, sum(map(len, [*rows, *late, *events])))
        for part in events:
            await reading.events(part, request.until_ms)
        for part in rows:
            await reading.rows(part)
        for part in late:
            await reading.late(part)
        return await asyncio.to_thread(_made, settings, request, file, found)


class _Reading:
    """Reads the topics into a file of rows."""

    def __init__(
        self, settings: Settings, consumer: AIOKafkaConsumer, file: TopicRows, found: _Read, on_progress: Progress,
        total: int,
    ) -> None:  # fmt: skip
        self._settings, self._consumer, self._file, self._found = settings, consumer, file, found
        self._on_progress, self._done, self._total = on_progress, 0, total
        self._decoder = Decoder(file.index, settings.budget)

    async def rows(self, part: Range) -> None:
        """Read a partition of the output."""
        first_ms: list[int] = []
        messages = 0
        async for records in read_range(self._consumer, part, most=_MOST_RECORDS):
            for record in records:
                messages += 1
                try:
                    newest_ms = self._file.add(record.value or b"", record.timestamp, part.partition)
                except RecordError:
                    self._found.unread_rows += 1
                    continue
                if newest_ms is not None and messages <= _FIRST_MESSAGES:
                    first_ms.append(newest_ms)
            self._count(records)
        if first_ms and part.begin == part.oldest > 0:
            self._found.retained_ms = max([*first_ms, *_given(self._found.retained_ms)])

    async def late(self, part: Range) -> None:
        """Read a partition of the late topic."""
        async for records in read_range(self._consumer, part, most=_MOST_RECORDS):
            for record in records:
                self._late(record)
            self._count(records)

    def _late(self, record: Any) -> None:
        try:
            positions = positions_of(record.headers)
        except ValueError:
            self._found.unread_late += 1
            return
        readings, _ = self._decoder.decode([record], now_ms=time.time_ns() // 1_000_000)
        if positions is not None:
            readings = readings.where(np.isin(readings.position, positions))
            self._found.unread_late += len(positions) > len(readings)
        readings = readings.where(np.isfinite(readings.value))  # a report of no reading is none
        self._file.add_late(readings.group.astype(np.int64), readings.sensor.astype(np.int64), readings.event_time_ms)

    async def events(self, part: Range, until_ms: int | None) -> None:
        """Read a partition of the outage topic: groups that it names were present."""
        decoder = msgspec.json.Decoder(_Event)
        async for records in read_range(self._consumer, part, most=_MOST_RECORDS):
            for record in records:
                try:
                    event = decoder.decode(record.value or b"")
                    times_ms = [moment_ms(text) for text in (event.ts, event.last_ts) if text is not None]
                except (msgspec.MsgspecError, UnicodeError, SettingsError):
                    continue  # an event of another producer, or a loss of input
                group = self._file.index.group(event.group)
                if group <= UNKNOWN_GROUP or (until_ms is not None and times_ms[0] >= until_ms):
                    continue
                self._file.met(np.full(len(times_ms), group), np.array(times_ms))
            self._count(records)

    def _count(self, records: Sequence[Any]) -> None:
        self._done += len(records)
        self._on_progress(self._done, self._total)


def _made(settings: Settings, request: ReportRequest, file: TopicRows, found: _Read) -> CompletenessReport:
    for name in (name for rule in file.catalogue.groups for name in rule.ids):
        file.index.group(name)  # a known group, though it may never have sent
    _require_known(settings, request, file)
    rows = file.rows
    spans = file.spans(since_ms=request.since_ms, until_ms=request.until_ms, retained_ms=found.retained_ms)
    spans = {group: span for group, span in spans.items() if _wanted(file.index.names[group], request.groups)}
    begin_ms = min((first_ms for first_ms, _ in spans.values()), default=0)
    end_ms = max((end_ms for _, end_ms in spans.values()), default=begin_ms)
    days = Days(request.zone, begin_ms, end_ms)
    sensors, outside = counted(file.database, file.make_cells(spans), days)
    return CompletenessReport(
        title=settings.output_topic,
        source={
            "kafka": settings.kafka, "output_topic": settings.output_topic, "late_topic": settings.late_topic,
            "rows": rows,
        },
        timezone=str(request.zone),
        days=days,
        begin_ms=begin_ms,
        end_ms=end_ms,
        sensors=worst_first(sensors),
        filled=True,
        stream=True,
        unread=found.unread_rows + found.unread_late,
        notes=_notes(settings, request, file, found, outside),
    )  # fmt: skip


def _require_known(settings: Settings, request: ReportRequest, file: TopicRows) -> None:
    """Require that each wanted group is in the topic or in the catalogue.

    Raises:
        SettingsError: a name or pattern matches none.
    """
    known = [name for name in file.index.names if name]
    for wanted in request.groups:
        if not any(_wanted(name, [wanted]) for name in known):
            raise SettingsError(unknown_name(f"a group of {settings.output_topic}", wanted, known))


def _wanted(name: str, groups: Sequence[str]) -> bool:
    return not groups or any(name == each or fnmatchcase(name, each) for each in groups)


def _notes(settings: Settings, request: ReportRequest, file: TopicRows, found: _Read, outside: int) -> list[str]:
    output, late = settings.output_topic, settings.late_topic
    out = []
    if found.unread_rows:
        out.append(
            f"messages of {output} that are not in the schema, so their rows do not count: {found.unread_rows:,}"
        )
    if found.unread_late:
        out.append(f"letters of {late} that cannot be read whole, so more cells are late: {found.unread_late:,}")
    if file.foreign:
        out.append(f"rows of groups or sensors that {settings.catalogue} does not name, left out: {file.foreign:,}")
    if not found.late_topic:
        out.append(f"there is no topic {late} that this user may read: readings too late for their window do not count")
    if outside:
        out.append(f"late readings of times at which their group was not expected, left out: {outside:,}")
    if found.retained_ms is not None and (request.since_ms is None or found.retained_ms > request.since_ms):
        out.append(f"retention has removed rows before {text_of_ms(found.retained_ms)}: the report begins there")
    return out


def _given(number: int | None) -> list[int]:
    return [] if number is None else [number]
