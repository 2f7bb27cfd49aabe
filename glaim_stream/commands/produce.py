"""`glaim-stream produce`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.options import DeadLetterTopic, InputTopic, Kafka, LateTopic, OutageTopic, OutputTopic
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
    from glaim_stream.feed.produce import ProduceReport
    from glaim_stream.feed.sources import Source

_QUARTER_MS = 21_600_000  # of a day
_HISTORY_MS = 7_200_000


def produce(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="CSV or Parquet: columns `<group>.<sensor>` beside a time column, or group, sensor, ts, value."
        ),
    ] = None,
    plant: Plant = False,
    groups: Pumps = 8,
    days: Days = 1.0,
    seed: Annotated[int, typer.Option(help="Of the plant and of the dropouts.")] = 0,
    input_format: MessageFormat = Format.SINGLE,
    batch: MessageBatch = 50,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="With --plant: its readings bear the present time. Those since 0, 6, 12 or 18 h UTC, two hours at "
            "least, are sent at once and the others as they fall due, until --days are over.",
        ),
    ] = False,
    speed: Annotated[str, typer.Option(help="Times real time, such as 3600 (an hour a second), or `max`.")] = "max",
    since: Annotated[str | None, typer.Option("--from", help="Only readings at or after this time, ISO 8601.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only readings before this time.")] = None,
    time_column: TimeColumn = None,
    separator: Separator = ".",
    group: OnlyGroup = None,
    missing: Missing = None,
    timezone: Timezone = "UTC",
    date_order: DateOrder = None,
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
    late_topic: LateTopic = None,
    outage_topic: OutageTopic = None,
) -> None:
    """Replay a file, or the simulated plant, into the input topic. Exit code 1 when the broker refused anything."""
    from glaim_stream.commands.console import progress_bar
    from glaim_stream.feed.dropouts import hide, write_hidden
    from glaim_stream.feed.messages import InputFormat
    from glaim_stream.feed.produce import dry_run as count_only
    from glaim_stream.feed.produce import produce as send
    from glaim_stream.settings import read_settings

    now_ms = _now_ms(plant, speed, since or until) if live else None
    start_ms = None if now_ms is None else _live_start_ms(now_ms)
    source = source_of(
        file, plant, days, groups, seed, separator, time_column, group, missing, timezone, date_order, start_ms
    )
    source = within(source, since, until, timezone)
    pace = 1.0 if live else _speed(speed)
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
        kafka=kafka,
        input_topic=input_topic,
        output_topic=output_topic,
        dead_letter_topic=dead_letter_topic,
        late_topic=late_topic,
        outage_topic=outage_topic,
    )
    with progress_bar(settings.input_topic, "readings") as progress:
        report = send(
            settings, sent, input_format=chosen, batch=batch, speed=pace, now_ms=now_ms, null=null, on_progress=progress
        )
    print(
        f"{settings.input_topic}: {report.readings} readings of {report.groups} groups in {report.messages} messages, "
        f"{report.value_bytes / 1e6:.1f} MB, {report.seconds:.1f} s, {report.readings_per_second:.0f} readings/s; "
        f"withheld {int(withheld.mask.sum())}, gaps of the source {source.gaps}"
    )
    if report.failed_messages:
        print(f"error: {report.failed_messages} messages were not delivered: {report.error}", file=sys.stderr)
        raise typer.Exit(1)


def _now_ms(plant: bool, speed: str, part: str | None) -> int:
    """The present time, for a live plant; SettingsError where what is asked besides says otherwise."""
    from glaim_stream.errors import SettingsError

    if not plant:
        raise SettingsError("--live: expected --plant, whose readings can bear any time; a file's bear their own")
    if speed != "max" or part is not None:
        raise SettingsError("--live: expected no --speed, --from or --until, since its pace and time are the clock's")
    return time.time_ns() // 1_000_000


def _live_start_ms(now_ms: int) -> int:
    """The last quarter of a day, UTC, that began two hours ago: longer than a window, mostly the same at a restart."""
    return (now_ms - _HISTORY_MS) // _QUARTER_MS * _QUARTER_MS


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
    from glaim_stream.times import text_of_ms

    print(
        f"would send {report.readings} readings ({report.nulls} null) of {report.groups} groups "
        f"in {report.messages} messages, {report.value_bytes / 1e6:.1f} MB,\n"
        f"from {text_of_ms(report.first_ms)} to {text_of_ms(report.last_ms)}; "
        f"withheld {withheld}, gaps of the source {source.gaps}"
    )
