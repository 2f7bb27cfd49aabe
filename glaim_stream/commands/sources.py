"""Flags that choose which readings a command sends, from a file or the simulated plant, and the reading of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.feed.formats import InputFormat

if TYPE_CHECKING:
    from glaim_stream.feed.sources import Source


class DateOrder(StrEnum):
    """Which of day and month comes first in a date that does not begin with its year."""

    DMY = "dmy"
    MDY = "mdy"


@dataclass(frozen=True)
class PlantFlags:
    """Flags of the simulated plant."""

    plant: Annotated[bool, typer.Option("--plant", help="Use the simulated pump plant instead of a file.")] = False
    groups: Annotated[int, typer.Option(min=1, help="Number of pumps of the plant.")] = 8
    days: Annotated[float, typer.Option(min=0, help="Days of the plant, one reading per minute.")] = 1.0
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0


@dataclass(frozen=True)
class MessageFlags:
    """Flags of the messages that readings are put into."""

    input_format: Annotated[
        InputFormat,
        typer.Option(
            "--format", help="What a message holds: one reading, one group's step, many readings, or an Arrow stream."
        ),
    ] = InputFormat.SINGLE
    batch: Annotated[int, typer.Option(min=1, help="Readings per message of the formats batch and arrow.")] = 50


@dataclass(frozen=True)
class ColumnFlags:
    """Flags that tell how the columns of a file of readings are to be understood."""

    time_column: Annotated[
        str | None,
        typer.Option(help="One column, or two as `Date+Clock`. [default: the first of ts, time, timestamp, datetime, "
                     "date]"),
    ] = None  # fmt: skip
    separator: Annotated[str, typer.Option(help="Separator of group and sensor in a wide file's column names.")] = "."
    missing: Annotated[
        list[str] | None,
        typer.Option(help="A number or text (`Bad`) that means no reading; repeatable. [default: -9999]"),
    ] = None
    timezone: Annotated[str, typer.Option(help="Time zone of timestamps that carry none.")] = "UTC"
    date_order: Annotated[
        DateOrder | None,
        typer.Option(
            help="Order of dates such as 1/2/2026: day or month first. [default: inferred from the other dates]"
        ),
    ] = None


@dataclass(frozen=True)
class FileFlags(ColumnFlags):
    """Flags that tell how a file of readings is to be understood."""

    group: Annotated[
        str | None, typer.Option(help="The group of a file that names none; its columns are then sensors.")
    ] = None


def open_source(file: Path | None, plant: PlantFlags, form: FileFlags, *, start_ms: int | None = None) -> Source:
    """Read the file, or simulate the plant from `start_ms` on.

    Raises:
        SettingsError: both or neither is given, or the file cannot be read.
    """
    from glaim_stream.errors import SettingsError
    from glaim_stream.feed.sources import DEFAULT_MISSING, plant_source, read_source

    if plant.plant == (file is not None):
        raise SettingsError("expected a file or --plant, found " + ("both" if plant.plant else "neither"))
    if file is None:
        return plant_source(plant.days, groups=plant.groups, seed=plant.seed, start_ms=start_ms)
    source = read_source(
        file,
        separator=form.separator,
        time_column=form.time_column,
        group=form.group,
        missing=DEFAULT_MISSING if form.missing is None else form.missing,
        timezone=form.timezone,
        date_order=form.date_order or "",
    )
    if source.skipped:
        print(f"{file}: columns without numbers are left out: {', '.join(source.skipped)}", file=sys.stderr)
    return source


def readings_between(source: Source, since: str | None, until: str | None, timezone: str) -> Source:
    """The readings between two moments, as text; None sets no bound.

    Raises:
        SettingsError: there are none.
    """
    from glaim_stream.errors import SettingsError
    from glaim_stream.times import moment_ms, text_of_ms

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
