"""A replay as a whole: what is read, through which imputer, to where, and the report of it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from glaim_stream import metrics
from glaim_stream.errors import SettingsError
from glaim_stream.imputers.triton import TritonImputer
from glaim_stream.kafka.ranges import Range, read_range, reader
from glaim_stream.kafka.topics import ensure_topic
from glaim_stream.output.messages import Publisher
from glaim_stream.output.row_files import RowFile
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.replay.core import Counts, PartitionReplay
from glaim_stream.replay.files import Dealer, Messages
from glaim_stream.replay.sinks import FileSink, OutageFile, Recorded, RejectFile, topic_sink
from glaim_stream.settings import Settings
from glaim_stream.worker.app import create_pipeline

Progress = Callable[[int, int], object]  # records so far, records in all


@dataclass(frozen=True, slots=True)
class Target:
    """Where rows go: a file, or else the output topic of the settings; and files for what was refused, for outages."""

    file: Path | None = None
    newest_only: bool = False
    rejects: Path | None = None
    outages: Path | None = None


@dataclass(slots=True)
class ReplayReport:
    """What was done; whole when the replay has ended."""

    counts: Counts = field(default_factory=Counts)
    seconds: float = 0.0
    failures: dict[str, int] = field(default_factory=dict)  # batches that a rung could not answer, by rung


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
        settings: catalogue, models and imputer, as the worker's; Kafka and output topic where rows go to a topic.
        messages: (key, value, headers) in the order in which they would have been produced.
        partitions: how many partitions the input topic would have.
        total: how many messages there are, for the progress.
        target: where rows go.
        close: publish the steps that are open at the end, as the worker does when nothing more comes.
        on_progress: called now and then.

    Raises:
        GlaimError: settings, catalogue, contracts, models or servers cannot be used.
    """
    async with _running(settings, target, partitions) as (pipeline, publisher, report):
        dealer = Dealer(partitions, time.time_ns() // 1_000_000)
        replays: dict[int, PartitionReplay] = {}
        for partition, records, taken in dealer.deal(messages, settings.poll_records):
            if partition not in replays:
                replays[partition] = _partition(settings, pipeline, publisher, report, partition)
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
        settings: as for `replay_messages`.
        ranges: for each partition what warms its windows up (warmup.py), and what is replayed.
        target: where rows go.
        close: publish the steps that are open at the end.
        on_progress: called now and then.

    Raises:
        GlaimError: settings, catalogue, contracts, models or servers cannot be used.
    """
    total = sum(len(warm) + len(part) for warm, part in ranges)
    done = 0
    numbers = max((part.partition for _, part in ranges), default=0) + 1
    async with _running(settings, target, numbers) as (pipeline, publisher, report), reader(settings) as consumer:
        for warm, part in ranges:
            each = _partition(settings, pipeline, publisher, report, part.partition)
            for some, publish in ((warm, False), (part, True)):
                async for records in read_range(consumer, some, most=settings.poll_records):
                    await each.take(records, publish=publish)
                    done += len(records)
                    on_progress(done, total)
            await each.finish(close=close)
    return report


@asynccontextmanager
async def _running(
    settings: Settings, target: Target, partitions: int
) -> AsyncIterator[tuple[Pipeline, Publisher, ReplayReport]]:
    start_s = time.monotonic()
    report = ReplayReport()
    pipeline, ladder = create_pipeline(settings)
    before = _failures()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(ladder.close)
        for rung in ladder.rungs:
            if isinstance(rung, TritonImputer):
                await rung.check()  # a backfill by the wrong model is worse than none
        rejects = stack.enter_context(RejectFile(target.rejects)) if target.rejects is not None else None
        outages = stack.enter_context(OutageFile(target.outages)) if target.outages is not None else None
        sink: Publisher
        if target.file is not None:
            sink = FileSink(stack.enter_context(RowFile(target.file, newest_only=target.newest_only)))
        else:
            there = ensure_topic(settings, settings.output_topic, partitions)
            if there < partitions:
                raise SettingsError(f"{settings.output_topic} needs at least {partitions} partitions, found {there}")
            sink = await stack.enter_async_context(topic_sink(settings))
        yield pipeline, Recorded(sink, rejects, outages), report
    report.failures = {rung: count - before.get(rung, 0) for rung, count in _failures().items()}
    report.failures = {rung: count for rung, count in report.failures.items() if count}
    report.seconds = time.monotonic() - start_s


def _partition(
    settings: Settings, pipeline: Pipeline, publisher: Publisher, report: ReplayReport, partition: int
) -> PartitionReplay:
    return PartitionReplay(
        pipeline,
        publisher,
        report.counts,
        topic=settings.input_topic,
        partition=partition,
        in_flight=settings.batches_in_flight,
    )


def _failures() -> dict[str, int]:
    """Batches that each rung could not answer, in this process until now."""
    return {
        sample.labels["imputer"]: int(sample.value)
        for metric in metrics.imputer_failures.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }
