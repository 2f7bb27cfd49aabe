"""`glaim-stream replay`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.options import (
    OFFSETS,
    Catalogue,
    Imputer,
    InputTopic,
    Kafka,
    ModelRepository,
    Triton,
    offsets_of,
)
from glaim_stream.commands.sources import (
    DateOrder,
    Days,
    Format,
    MessageBatch,
    MessageFormat,
    Missing,
    OnlyGroup,
    Plant,
    Pumps,
    Separator,
    TimeColumn,
    Timezone,
    source_of,
    within,
)

if TYPE_CHECKING:
    from glaim_stream.feed.sources import Source
    from glaim_stream.kafka.ranges import Range
    from glaim_stream.replay.files import Messages
    from glaim_stream.replay.run import ReplayReport, Target
    from glaim_stream.settings import Settings


def replay(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="CSV or Parquet as for `produce`, or raw messages: .jsonl (one a line), .arrows (Arrow IPC streams). "
            "Without it the input topic is read."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write rows to this .arrow, .parquet or .csv file; it appears whole at the end.")
    ] = None,
    output_topic: Annotated[
        str | None, typer.Option(help="Or publish them on this topic, made when absent. No default on purpose.")
    ] = None,
    newest_only: Annotated[
        bool, typer.Option("--newest-only", help="With --out: only the last word on each group, sensor and time.")
    ] = False,
    rejects: Annotated[
        Path | None, typer.Option(help="Write what was refused, with its cause, to this file of JSON lines.")
    ] = None,
    outages: Annotated[
        Path | None, typer.Option(help="Write which groups went dark and spoke again to this file of JSON lines.")
    ] = None,
    from_offset: Annotated[list[str] | None, typer.Option(help=f"Of the topic: begin here. {OFFSETS}")] = None,
    until_offset: Annotated[list[str] | None, typer.Option(help=f"Of the topic: end before it. {OFFSETS}")] = None,
    partition: Annotated[list[int] | None, typer.Option(help="Of the topic: only this one; repeatable.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="A file's readings, a topic's records at or after this time, ISO 8601.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Those before this time.")] = None,
    warm_up: Annotated[
        bool,
        typer.Option(
            "--warm-up/--no-warm-up",
            help="Of a topic: first read what the windows of the range's beginning need, and publish nothing of it.",
        ),
    ] = True,
    close: Annotated[
        bool | None,
        typer.Option(
            "--close/--leave-open",
            help="Publish the steps that are open at the end, as the worker does when nothing more comes. "
            "[default: of a file, not of a topic]",
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Of a file: groups are dealt out to so many partitions as a producer would; the watermark is a "
            "partition's. [env: GLAIM_PARTITIONS, else 4]",
        ),
    ] = None,
    plant: Plant = False,
    groups: Pumps = 8,
    days: Days = 1.0,
    seed: Annotated[int, typer.Option(help="Of the plant.")] = 0,
    input_format: MessageFormat = Format.SINGLE,
    batch: MessageBatch = 50,
    time_column: TimeColumn = None,
    separator: Separator = ".",
    group: OnlyGroup = None,
    missing: Missing = None,
    timezone: Timezone = "UTC",
    date_order: DateOrder = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be read and written, and do neither.")
    ] = False,
    kafka: Kafka = None,
    input_topic: InputTopic = None,
    catalogue: Catalogue = None,
    model_repository: ModelRepository = None,
    imputer: Imputer = None,
    triton: Triton = None,
) -> None:
    """Fill a file, or a range of the input topic, through the same windows and imputer as the worker.

    Rows equal the worker's for the same input: observed values exactly, filled ones within a sensor's resolution, and
    to the byte with GLAIM_TRITON_FIXED_BATCH on both sides. Exit code 1 when the imputer failed on some of them, so
    that a lower rung filled, or when we failed on a record.
    """
    from glaim_stream.errors import SettingsError
    from glaim_stream.replay.run import Target
    from glaim_stream.settings import read_settings

    if (out is None) == (output_topic is None):
        raise SettingsError(
            "expected --out FILE or --output-topic TOPIC, found " + ("neither" if out is None else "both")
        )
    if newest_only and out is None:
        raise SettingsError("--newest-only folds rows at the end and needs --out")
    settings = read_settings(
        kafka=kafka,
        input_topic=input_topic,
        output_topic=output_topic,
        catalogue=catalogue,
        model_repository=model_repository,
        imputer=None if imputer is None else imputer.value,
        triton=triton,
        partitions=partitions,
    )
    if output_topic == settings.input_topic:
        raise SettingsError(f"expected another topic than the input {settings.input_topic} for the rows")
    target = Target(out, newest_only, rejects, outages)
    if file is None and not plant:
        if partitions is not None:
            raise SettingsError("--partitions is for files: a topic has its own")
        ranges = asyncio.run(
            _ranges(
                settings, offsets_of(from_offset), offsets_of(until_offset), since, until, partition, warm_up, timezone
            )
        )
        report = _replay_topic(settings, ranges, target, bool(close), dry_run)
    else:
        if from_offset or until_offset or partition:
            raise SettingsError("offsets and --partition are for the topic: a file has --from and --until")
        raw = file is not None and _is_raw(file)
        if raw and (since or until):
            raise SettingsError(f"{file}: --from and --until look at readings; raw messages are replayed whole")
        if raw:
            assert file is not None
            messages, total, what = _raw(file)
        else:
            source = source_of(
                file, plant, days, groups, seed, separator, time_column, group, missing, timezone, date_order
            )
            messages, total, what = _planned(within(source, since, until, timezone), input_format, batch)
        report = _replay_file(settings, messages, total, what, target, close is not False, dry_run)
    if report is not None:
        _print(report, settings, target)


async def _ranges(
    settings: Settings,
    from_offset: dict[int, int] | int | None,
    until_offset: dict[int, int] | int | None,
    since: str | None,
    until: str | None,
    partitions: list[int] | None,
    warm_up: bool,
    timezone: str,
) -> list[tuple[Range, Range]]:
    from glaim_stream.catalogue import read_catalogue
    from glaim_stream.kafka.ranges import ranges_of, reader
    from glaim_stream.replay.warmup import nothing_before, warm_up_range
    from glaim_stream.times import moment_ms

    catalogue = read_catalogue(settings.catalogue)
    async with reader(settings) as consumer:
        ranges = await ranges_of(
            settings,
            consumer,
            settings.input_topic,
            from_offset=from_offset,
            until_offset=until_offset,
            since_ms=None if since is None else moment_ms(since, timezone=timezone),
            until_ms=None if until is None else moment_ms(until, timezone=timezone),
            partitions=partitions or (),
        )
        return [
            (await warm_up_range(consumer, part, catalogue) if warm_up else nothing_before(part), part)
            for part in ranges
            if len(part)
        ]


def _replay_topic(
    settings: Settings, ranges: list[tuple[Range, Range]], target: Target, close: bool, dry_run: bool
) -> ReplayReport | None:
    from glaim_stream.commands.console import progress_bar
    from glaim_stream.errors import SettingsError
    from glaim_stream.replay.run import replay_ranges

    if not ranges:
        raise SettingsError(f"{settings.input_topic}: expected records in that range, found none")
    for warm, part in ranges:
        kept = " (all that retention has kept)" if len(warm) and warm.begin == part.oldest > 0 else ""
        print(
            f"{part.topic}-{part.partition}: offsets {part.begin} to {part.end}, {len(part)} records; "
            f"windows warmed up by {len(warm)} before{kept}"
        )
    if dry_run:
        print(f"would write rows to {target.file or settings.output_topic}, filled by {settings.imputer}")
        return None
    with progress_bar(settings.input_topic, "records") as progress:
        return asyncio.run(replay_ranges(settings, ranges, target=target, close=close, on_progress=progress))


def _is_raw(file: Path) -> bool:
    from glaim_stream.replay.files import RAW_ENDINGS

    return file.suffix in RAW_ENDINGS


def _raw(file: Path) -> tuple[Messages, int, str]:
    from glaim_stream.replay.files import raw_messages

    messages = raw_messages(file)
    return iter(messages), len(messages), f"{file}: {len(messages)} raw messages"


def _planned(source: Source, input_format: Format, batch: int) -> tuple[Messages, int, str]:
    from glaim_stream.feed.messages import InputFormat, plan_messages
    from glaim_stream.replay.files import planned
    from glaim_stream.times import text_of_ms

    plan = plan_messages(source, InputFormat(input_format.value), batch=batch)
    first, last = text_of_ms(int(source.time_ms[0])), text_of_ms(int(source.time_ms[-1]))
    what = f"{len(source)} readings of {len(source.groups)} groups in {len(plan)} messages, from {first} to {last}"
    return planned(plan), len(plan), what


def _replay_file(
    settings: Settings, messages: Messages, total: int, what: str, target: Target, close: bool, dry_run: bool
) -> ReplayReport | None:
    from glaim_stream.catalogue import read_catalogue
    from glaim_stream.commands.console import progress_bar
    from glaim_stream.replay.run import replay_messages

    print(f"{what}, as {settings.partitions} partitions")
    if dry_run:
        read_catalogue(settings.catalogue)
        print(f"would write rows to {target.file or settings.output_topic}, filled by {settings.imputer}")
        return None
    with progress_bar("replay", "messages") as progress:
        return asyncio.run(
            replay_messages(
                settings,
                messages,
                partitions=settings.partitions,
                total=total,
                target=target,
                close=close,
                on_progress=progress,
            )
        )


def _print(report: ReplayReport, settings: Settings, target: Target) -> None:
    counts = report.counts
    print(
        f"{target.file or settings.output_topic}: {counts.rows} rows of {counts.readings} readings in {counts.records} "
        f"records, {counts.warm_up_records} more to warm up; {report.seconds:.1f} s"
    )
    if counts.rejects:
        causes = ", ".join(f"{count} {cause}" for cause, count in counts.rejects.most_common())
        print(f"refused: {causes}" + (f"; see {target.rejects}" if target.rejects else "; --rejects FILE keeps them"))
    if counts.outages:
        print(
            f"groups that went dark or spoke again: {counts.outages}"
            + (f"; see {target.outages}" if target.outages else "; --outages FILE keeps them")
        )
    if counts.faults:
        print(
            f"error: we failed on {counts.faults} batches: see the log, and `processing` among what was refused",
            file=sys.stderr,
        )
    if report.failures:
        failed = ", ".join(f"{rung} {count} times" for rung, count in report.failures.items())
        print(f"error: imputers failed, and lower rungs filled: {failed}", file=sys.stderr)
    if report.failures or counts.faults:
        raise typer.Exit(1)
