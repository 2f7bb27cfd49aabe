"""`glaim-stream produce`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.options import DeadLetterTopic, InputTopic, Kafka, OutputTopic

if TYPE_CHECKING:
    from glaim_stream.feed.produce import ProduceReport, Progress
    from glaim_stream.feed.sources import Source

_LINE_EVERY_S = 5.0


class Format(StrEnum):
    """What a message holds."""

    SINGLE = "single"
    STEP = "step"
    BATCH = "batch"
    ARROW = "arrow"


def produce(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="CSV or Parquet: columns `<group>.<sensor>` beside a time column, or group, sensor, ts, value."
        ),
    ] = None,
    plant: Annotated[bool, typer.Option("--plant", help="The simulated pump plant instead of a file.")] = False,
    groups: Annotated[int, typer.Option(min=1, help="Pumps of the plant.")] = 8,
    days: Annotated[float, typer.Option(min=0, help="Days of the plant, a reading a minute.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the plant and of the dropouts.")] = 0,
    input_format: Annotated[
        Format,
        typer.Option("--format", help="A message is one reading, one group's step, many readings, or an Arrow stream."),
    ] = Format.SINGLE,
    batch: Annotated[int, typer.Option(min=1, help="Readings of a message of batch and arrow.")] = 50,
    speed: Annotated[str, typer.Option(help="Times real time, such as 3600 (an hour a second), or `max`.")] = "max",
    since: Annotated[str | None, typer.Option("--from", help="Only readings at or after this time, ISO 8601.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only readings before this time.")] = None,
    time_column: Annotated[
        str | None, typer.Option(help="[default: the first of ts, time, timestamp, datetime, date]")
    ] = None,
    separator: Annotated[str, typer.Option(help="Between group and sensor in a wide file's column names.")] = ".",
    group: Annotated[
        str | None, typer.Option(help="The group of a file that names none: its columns are then sensors.")
    ] = None,
    missing: Annotated[
        list[float] | None, typer.Option(help="A value that means no reading; repeatable. [default: -9999]")
    ] = None,
    timezone: Annotated[str, typer.Option(help="Zone of the stamps that carry none.")] = "UTC",
    drop: Annotated[
        float,
        typer.Option(help="Withhold this share of the readings: single ones, silent sensors, silent groups."),
    ] = 0.0,
    hidden: Annotated[
        Path | None, typer.Option(help="Write what --drop withheld to this Parquet file, to score what was filled.")
    ] = None,
    as_null: Annotated[bool, typer.Option("--as-null", help="Send dropouts as null instead of silence.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be sent, and send nothing.")] = False,
    kafka: Kafka = None,
    input_topic: InputTopic = None,
    output_topic: OutputTopic = None,
    dead_letter_topic: DeadLetterTopic = None,
) -> None:
    """Replay a file, or the simulated plant, into the input topic. Exit code 1 when the broker refused anything."""
    from glaim_stream.feed.dropouts import hide, write_hidden
    from glaim_stream.feed.messages import InputFormat
    from glaim_stream.feed.produce import dry_run as count_only
    from glaim_stream.feed.produce import produce as send
    from glaim_stream.settings import read_settings

    source = _source(file, plant, days, groups, seed, separator, time_column, group, missing, timezone)
    source = _within(source, since, until, timezone)
    pace = _speed(speed)
    withheld = hide(source, drop, seed=seed)
    if hidden is not None and not dry_run:
        print(f"{hidden}: {write_hidden(source, withheld, hidden)} withheld readings")
    null = withheld.mask if as_null else None
    sent = source if as_null else source.where(~withheld.mask)
    chosen = InputFormat(input_format.value)
    if dry_run:
        _print_plan(count_only(sent, chosen, batch=batch, null=null), source, int(withheld.mask.sum()))
        return
    settings = read_settings(
        kafka=kafka, input_topic=input_topic, output_topic=output_topic, dead_letter_topic=dead_letter_topic
    )
    with _progress(settings.input_topic) as progress:
        report = send(settings, sent, input_format=chosen, batch=batch, speed=pace, null=null, on_progress=progress)
    print(
        f"{settings.input_topic}: {report.readings} readings of {report.groups} groups in {report.messages} messages, "
        f"{report.value_bytes / 1e6:.1f} MB, {report.seconds:.1f} s, {report.readings_per_second:.0f} readings/s; "
        f"withheld {int(withheld.mask.sum())}, gaps of the source {source.gaps}"
    )
    if report.failed_messages:
        print(f"error: {report.failed_messages} messages were not delivered: {report.error}", file=sys.stderr)
        raise typer.Exit(1)


def _source(
    file: Path | None,
    plant: bool,
    days: float,
    groups: int,
    seed: int,
    separator: str,
    time_column: str | None,
    group: str | None,
    missing: list[float] | None,
    timezone: str,
) -> Source:
    from glaim_stream.errors import SettingsError
    from glaim_stream.feed.sources import DEFAULT_MISSING, plant_source, read_source

    if plant == (file is not None):
        raise SettingsError("expected a file or --plant, found " + ("both" if plant else "neither"))
    if file is None:
        return plant_source(days, groups=groups, seed=seed)
    source = read_source(
        file,
        separator=separator,
        time_column=time_column,
        group=group,
        missing=DEFAULT_MISSING if missing is None else missing,
        timezone=timezone,
    )
    if source.skipped:
        print(f"{file}: columns without numbers are left out: {', '.join(source.skipped)}", file=sys.stderr)
    return source


def _within(source: Source, since: str | None, until: str | None, timezone: str) -> Source:
    from glaim_stream.errors import SettingsError
    from glaim_stream.feed.times import moment_ms, text_of_ms

    first, last = source.time_ms[0], source.time_ms[-1]
    chosen = source.between(
        None if since is None else moment_ms(since, timezone=timezone),
        None if until is None else moment_ms(until, timezone=timezone),
    )
    if len(chosen) == 0:
        raise SettingsError(
            f"expected readings from {since or 'the beginning'} until {until or 'the end'}, "
            f"found only some from {text_of_ms(int(first))} to {text_of_ms(int(last))}"
        )
    return chosen


def _speed(text: str) -> float | None:
    from glaim_stream.errors import SettingsError

    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise SettingsError(f"--speed: expected `max` or times real time above 0, found {text!r}")
    return speed


def _print_plan(report: ProduceReport, source: Source, withheld: int) -> None:
    from glaim_stream.feed.times import text_of_ms

    print(
        f"would send {report.readings} readings ({report.nulls} null) of {report.groups} groups "
        f"in {report.messages} messages, {report.value_bytes / 1e6:.1f} MB,\n"
        f"from {text_of_ms(report.first_ms)} to {text_of_ms(report.last_ms)}; "
        f"withheld {withheld}, gaps of the source {source.gaps}"
    )


@contextmanager
def _progress(topic: str) -> Iterator[Progress]:
    """A bar on a terminal, else a line every few seconds; on stderr, so that stdout stays the result."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if console.is_terminal:
        columns = (TextColumn(f"{topic}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(topic, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    last_s = time.monotonic()

    def line(done: int, total: int) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= _LINE_EVERY_S:
            last_s = time.monotonic()
            print(f"{topic}: {done} of {total} readings", file=sys.stderr, flush=True)

    yield line
