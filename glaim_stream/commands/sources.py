"""Flags that say which readings a command takes, from a file or the simulated plant, and what they mean."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glaim_stream.feed.sources import Source


class Format(StrEnum):
    """What a message holds."""

    SINGLE = "single"
    STEP = "step"
    BATCH = "batch"
    ARROW = "arrow"


Plant = Annotated[bool, typer.Option("--plant", help="The simulated pump plant instead of a file.")]
Pumps = Annotated[int, typer.Option(min=1, help="Pumps of the plant.")]
Days = Annotated[float, typer.Option(min=0, help="Days of the plant, a reading a minute.")]
MessageFormat = Annotated[
    Format,
    typer.Option("--format", help="A message is one reading, one group's step, many readings, or an Arrow stream."),
]
MessageBatch = Annotated[int, typer.Option(min=1, help="Readings of a message of batch and arrow.")]
TimeColumn = Annotated[
    str | None,
    typer.Option(help="One, or two as `Date+Clock`. [default: the first of ts, time, timestamp, datetime, date]"),
]
Separator = Annotated[str, typer.Option(help="Between group and sensor in a wide file's column names.")]
OnlyGroup = Annotated[
    str | None, typer.Option(help="The group of a file that names none: its columns are then sensors.")
]
Missing = Annotated[
    list[str] | None,
    typer.Option(help="A number or text (`Bad`) that means no reading; repeatable. [default: -9999]"),
]
Timezone = Annotated[str, typer.Option(help="Zone of the stamps that carry none.")]


class Order(StrEnum):
    """What comes first in a date that does not begin with its year."""

    DMY = "dmy"
    MDY = "mdy"


DateOrder = Annotated[
    Order | None, typer.Option(help="Of dates such as 1/2/2026: day or month first. [default: as the other dates tell]")
]


def source_of(
    file: Path | None,
    plant: bool,
    days: float,
    groups: int,
    seed: int,
    separator: str,
    time_column: str | None,
    group: str | None,
    missing: list[str] | None,
    timezone: str,
    date_order: Order | None,
    start_ms: int | None = None,
) -> Source:
    """The file, or the simulated plant, which may begin at a time of one's own.

    Raises:
        SettingsError: both or none is asked for, or the file cannot be read.
    """
    from glaim_stream.errors import SettingsError
    from glaim_stream.feed.sources import DEFAULT_MISSING, plant_source, read_source

    if plant == (file is not None):
        raise SettingsError("expected a file or --plant, found " + ("both" if plant else "neither"))
    if file is None:
        return plant_source(days, groups=groups, seed=seed, start_ms=start_ms)
    source = read_source(
        file,
        separator=separator,
        time_column=time_column,
        group=group,
        missing=DEFAULT_MISSING if missing is None else missing,
        timezone=timezone,
        date_order=date_order or "",
    )
    if source.skipped:
        print(f"{file}: columns without numbers are left out: {', '.join(source.skipped)}", file=sys.stderr)
    return source


def within(source: Source, since: str | None, until: str | None, timezone: str) -> Source:
    """The readings between two moments.

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
