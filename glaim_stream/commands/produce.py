"""`glaim-stream produce`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.flags import SettingsFlags, expand_flags
from glaim_stream.commands.moments import MOMENT
from glaim_stream.commands.options import Pairs, Text
from glaim_stream.commands.sources import (
    FileFlags,
    MessageFlags,
    PlantFlags,
    open_source,
    require_other_files,
)

if TYPE_CHECKING:
    from glaim_stream.feed import ProduceReport, Source

_QUARTER_DAY_MS = 21_600_000
_HISTORY_MS = 7_200_000


@dataclass(frozen=True)
class TopicFlags(SettingsFlags):
    """Flags of the broker and of the topics that are made where they are absent."""

    kafka: Text = None
    input_topic: Text = None
    output_topic: Text = None
    topic_names: Pairs = None


@expand_flags
def produce(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="CSV, JSON lines, Parquet or Arrow: a column a sensor and a time, or group, sensor, ts, value."
        ),
    ] = None,
    *,
    plant: PlantFlags,
    messages: MessageFlags,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="With --plant: its readings bear the present time. Those since 0, 6, 12 or 18 h UTC, at least two "
            "hours, are sent at once and the others as they fall due, until --days are over.",
        ),
    ] = False,
    speed: Annotated[str, typer.Option(help="Times real time, such as 3600 (an hour a second), or `max`.")] = "max",
    since: Annotated[
        str | None, typer.Option("--since", help=f"Only readings at or after this time, {MOMENT}.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only readings before this time, likewise.")] = None,
    form: FileFlags,
    drop: Annotated[
        float,
        typer.Option(help="Withhold this share of the readings: single ones, silent sensors, silent groups."),
    ] = 0.0,
    hidden: Annotated[
        Path | None, typer.Option(help="Write what --drop withheld to this Parquet file, to score what was filled.")
    ] = None,
    as_null: Annotated[
        bool, typer.Option("--as-null", help="Send the withheld readings as null instead of leaving them out.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be sent, and send nothing.")] = False,
    topics: TopicFlags,
) -> None:
    """Send a file, or the simulated plant, to the input topic. Exit code 1 when the broker refused a message."""
    from glaim_stream.commands.console import progress_bar
    from glaim_stream.feed import dry_run as count_only
    from glaim_stream.feed import hide, write_hidden
    from glaim_stream.feed import produce as send

    require_other_files(file, hidden)
    now_ms = _now_ms(plant.plant, speed, since or until) if live else None
    start_ms = None if now_ms is None else _live_start_ms(now_ms)
    source = open_source(file, plant, form, start_ms=start_ms, since=since, until=until)
    pace = 1.0 if live else _speed(speed)
    withheld = hide(source, drop, seed=plant.seed)
    if hidden is not None and not dry_run:
        print(f"{hidden}: {write_hidden(source, withheld, hidden)} withheld readings")
    null = withheld.mask if as_null else None
    sent = source if as_null else source.where(~withheld.mask)
    if dry_run:
        report = count_only(sent, messages.input_format, batch=messages.batch, null=null)
        _print_plan(report, source, int(withheld.mask.sum()))
        return
    settings = topics.settings()
    with progress_bar(settings.input_topic, "readings") as progress:
        report = send(
            settings,
            sent,
            input_format=messages.input_format,
            batch=messages.batch,
            speed=pace,
            now_ms=now_ms,
            null=null,
            on_progress=progress,
        )
    print(
        f"{settings.input_topic}: {report.readings} readings of {report.groups} groups in {report.messages} messages, "
        f"{report.value_bytes / 1e6:.1f} MB, {report.seconds:.1f} s, {report.readings_per_second:.0f} readings/s; "
        f"{_left_out(source, int(withheld.mask.sum()))}"
    )
    if report.failed_messages:
        print(f"error: {report.failed_messages} messages were not delivered: {report.error}", file=sys.stderr)
        raise typer.Exit(1)


def _now_ms(plant: bool, speed: str, part: str | None) -> int:
    """The present time of a live plant.

    Raises:
        SettingsError: other flags contradict --live.
    """
    from glaim_stream.core.errors import SettingsError

    if not plant:
        raise SettingsError("--live: expected --plant, whose readings can bear any time; a file's bear their own")
    if speed != "max" or part is not None:
        raise SettingsError("--live: expected no --speed, --since or --until, since its pace and time are the clock's")
    return time.time_ns() // 1_000_000


def _live_start_ms(now_ms: int) -> int:
    """The start of the quarter of a day, UTC, in which the time two hours ago lies.

    Two hours are longer than a window, and a restart mostly gets the same start.
    """
    return (now_ms - _HISTORY_MS) // _QUARTER_DAY_MS * _QUARTER_DAY_MS


def _speed(text: str) -> float | None:
    from glaim_stream.core.errors import SettingsError

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
    from glaim_stream.core.times import text_of_ms

    print(
        f"would send {report.readings} readings ({report.nulls} null) of {report.groups} groups "
        f"in {report.messages} messages, {report.value_bytes / 1e6:.1f} MB,\n"
        f"from {text_of_ms(report.first_ms)} to {text_of_ms(report.last_ms)}; "
        f"{_left_out(source, withheld)}"
    )


def _left_out(source: Source, dropped: int) -> str:
    doubtful = f", doubtful readings not sent: {source.withheld_note}" if source.withheld else ""
    return f"withheld {dropped}, gaps of the source {source.gaps}{doubtful}"
