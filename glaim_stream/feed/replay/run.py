"""Runs a replay: reads a file or ranges of a topic, writes rows to an output, and reports."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path

from glaim_stream.build import ServedRung, closed_forms_of, create_pipeline
from glaim_stream.core.budget import BATCHES_IN_FLIGHT
from glaim_stream.core.registry import OUTPUTS
from glaim_stream.core.settings import Settings
from glaim_stream.feed.replay.files import Dealer, Dealt, Messages
from glaim_stream.feed.replay.partition import Counts, PartitionReplay
from glaim_stream.feed.replay.sinks import OutageFile, Recorded, RejectFile, opened_sink
from glaim_stream.kafka import Range, poll_records, read_range, reader
from glaim_stream.output import Sink

Progress = Callable[[int, int], object]  # records so far, all records


@dataclass(frozen=True, slots=True)
class Target:
    """The registered output of the rows and its place, and the files of rejects and outages."""

    output: str  # file, topic, or a name that another distribution registers
    where: str
    newest_only: bool = False  # of a file alone
    rejects: Path | None = None
    outages: Path | None = None


@dataclass(slots=True)
class ReplayReport:
    """A report on a replay; complete when the replay has ended."""

    counts: Counts = field(default_factory=Counts)
    seconds: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)  # batches that a rung could not answer, by rung

    def add(self, other: ReplayReport) -> None:
        """Add the counts and failures of another part."""
        for each in fields(Counts):
            mine, its = getattr(self.counts, each.name), getattr(other.counts, each.name)
            setattr(self.counts, each.name, mine + its)
        self.failures += other.failures


async def replay_messages(
    settings: Settings,
    messages: Messages,
    *,
    partitions: int,
    total: int,
    target: Target,
    close: bool = True,
    on_progress: Progress = lambda done, total: None,
) -> ReplayReport:
    """Replay messages of a file.

    Args:
        settings: settings as for `replay_dealt`.
        messages: (key, value, headers) in the order in which they would be produced.
        partitions: number of partitions that the input topic would have.
        total: number of messages, for the progress.
        target: destination of the output.
        close: publish the steps that are open at the end, as the worker does when no more input arrives.
        on_progress: called after each batch.

    Raises:
        GlaimError: the settings, the catalogue, a contract, a model or a server cannot be used.
    """
    dealer = Dealer(partitions, time.time_ns() // 1_000_000)
    dealt = dealer.deal(messages, poll_records(settings.kafka_extra))
    return await replay_dealt(
        settings, dealt, partitions=partitions, total=total, target=target, close=close, on_progress=on_progress
    )


async def replay_dealt(
    settings: Settings,
    dealt: Iterator[Dealt],
    *,
    partitions: int,
    total: int,
    target: Target,
    close: bool,
    on_progress: Progress,
) -> ReplayReport:
    """Replay records of a file; see `replay_messages`.

    Args:
        settings: catalogue, models and imputer as for a worker; also Kafka and the output topic if rows go to a topic.
        dealt: records with their partition, in order of offset.
        partitions: number of partitions that the input topic would have.
        total: number of records, for the progress.
        target: destination of the output.
        close: publish the steps that are open at the end.
        on_progress: called after each batch.
    """
    async with _running(settings, target, dict.fromkeys(range(partitions), 0)) as (open_partition, report):
        replays: dict[int, PartitionReplay] = {}
        for partition, records, taken in dealt:
            if partition not in replays:
                replays[partition] = open_partition(partition)
            await replays[partition].take(records)
            on_progress(taken, total)
        for each in replays.values():
            await each.finish(close=close)
    return report


async def replay_ranges(
    settings: Settings,
    ranges: list[tuple[Range, Range]],
    *,
    target: Target,
    close: bool = False,
    on_progress: Progress = lambda done, total: None,
) -> ReplayReport:
    """Replay ranges of a topic, one partition after the other.

    Args:
        settings: settings as for `replay_messages`.
        ranges: range that warms up the windows (warmup.py) and range to replay, for each partition.
        target: destination of the output.
        close: publish the steps that are open at the end.
        on_progress: called after each batch.

    Raises:
        GlaimError: the settings, the catalogue, a contract, a model or a server cannot be used.
    """
    total = sum(len(warm) + len(part) for warm, part in ranges)
    done = 0
    begins = {part.partition: part.begin for _, part in ranges}
    async with _running(settings, target, begins) as (open_partition, report), reader(settings) as consumer:
        for warm, part in ranges:
            each = open_partition(part.partition)
            for some, publish in ((warm, False), (part, True)):
                async for records in read_range(consumer, some):
                    await each.take(records, publish=publish)
                    done += len(records)
                    on_progress(done, total)
            await each.finish(close=close)
    return report


@asynccontextmanager
async def _running(
    settings: Settings, target: Target, offsets: Mapping[int, int]
) -> AsyncIterator[tuple[Callable[[int], PartitionReplay], ReplayReport]]:
    """Build a replay from these offsets on; yield a function that opens a partition by number, and the report."""
    start_s = time.monotonic()
    report = ReplayReport()

    def count_failure(rung: str, model: str) -> None:
        report.failures[rung] += 1

    # Upgrades are off: they depend on when a model is back, and a replay reports a model that was away.
    pipeline, ladder = create_pipeline(settings, upgrades=False, on_failure=count_failure)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(ladder.close)
        for rung in ladder.rungs:
            if isinstance(rung, ServedRung):
                await rung.check()  # rows of the wrong model are worse than no rows
        forms = closed_forms_of(pipeline, ladder) if settings.imputer == "gaussian" else None
        if forms is not None:
            forms.require_forms()  # a worker may still get forms; a replay would interpolate to its end
        rejects = stack.enter_context(RejectFile(target.rejects)) if target.rejects is not None else None
        outages = stack.enter_context(OutageFile(target.outages)) if target.outages is not None else None
        options = {"newest_only": True} if target.newest_only else {}
        sink: Sink = OUTPUTS.find(target.output)(target.where, settings, **options)
        await stack.enter_async_context(opened_sink(sink, offsets))
        publisher = Recorded(sink, rejects, outages)

        def open_partition(number: int) -> PartitionReplay:
            replay = PartitionReplay(
                pipeline,
                publisher,
                report.counts,
                topic=settings.input_topic,
                partition=number,
                in_flight=BATCHES_IN_FLIGHT,
            )
            stack.push_async_callback(replay.close)
            return replay

        yield open_partition, report
    report.seconds = time.monotonic() - start_s
