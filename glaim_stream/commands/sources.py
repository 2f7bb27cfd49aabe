"""Flags that choose which readings a command sends, from a file or the simulated plant, and the reading of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.moments import bounds_ms
from glaim_stream.feed import InputFormat

if TYPE_CHECKING:
    from glaim_stream.core.catalogue import Catalogue
    from glaim_stream.feed import Source
    from glaim_stream.files import PlainLong


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
    batch: Annotated[
        int,
        typer.Option(
            min=1,
            help="Most readings of a message of the formats batch and arrow. It ends earlier where another group's "
            "reading comes next, so that the order of time is kept.",
        ),
    ] = 50


@dataclass(frozen=True)
class ColumnFlags:
    """Flags that tell how the columns of a file of readings are to be understood."""

    time: Annotated[
        str | None,
        typer.Option("--time", help="One column, or several as `Date+Clock`. [default: detected]"),
    ] = None  # fmt: skip
    separator: Annotated[str, typer.Option(help="Separator of group and sensor in a wide file's column names.")] = "."
    missing: Annotated[
        list[str] | None,
        typer.Option(help="A number or text (`Bad`) that means no reading; repeatable. [default: those noticed]"),
    ] = None
    timezone: Annotated[
        str | None,
        typer.Option(
            help="Time zone of timestamps that carry none. [default: that in the name of their column, or UTC]"
        ),
    ] = None
    date_order: Annotated[
        DateOrder | None,
        typer.Option(
            help="Order of dates such as 1/2/2026: day or month first. [default: inferred from the other dates]"
        ),
    ] = None
    decimal: Annotated[
        str | None, typer.Option(help="Decimal sign, `.` or `,`. [default: inferred from the numbers]")
    ] = None
    group_column: Annotated[
        str | None, typer.Option(help="Column that names the group of a row. [default: detected]")
    ] = None


@dataclass(frozen=True)
class FileFlags(ColumnFlags):
    """Flags that tell how a file of readings is to be understood."""

    name: Annotated[
        str | None, typer.Option(help="Name of the group of a file that names none; its columns are then sensors.")
    ] = None


def open_source(
    file: Path | None, plant: PlantFlags, form: FileFlags, *, start_ms: int | None = None, since: str | None = None,
    until: str | None = None,
) -> Source:  # fmt: skip
    """Read the file, or simulate the plant from `start_ms` on; take the readings between two moments, as text.

    Raises:
        SettingsError: both or neither is given, the file cannot be read, or there are no such readings.
    """
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.feed import plant_source, read_source

    if plant.plant == (file is not None):
        raise SettingsError("expected a file or --plant, found " + ("both" if plant.plant else "neither"))
    if file is None:
        source = plant_source(plant.days, groups=plant.groups, seed=plant.seed, start_ms=start_ms)
        return _between(source, since, until, form.timezone or "UTC")
    with naming_group_column():
        source = read_source(
            file,
            separator=form.separator,
            time_column=form.time,
            group=form.name,
            missing=form.missing or (),
            timezone=form.timezone,
            date_order=form.date_order or "",
            decimal=form.decimal or "",
            group_column=form.group_column,
        )
    for note in source.notes:
        print(f"{file.name}: {note}", file=sys.stderr)
    source = _between(source, since, until, form.timezone or "UTC")
    if source.withheld:
        said = f"withheld as doubtful or no number, and not used as readings: {source.withheld_note}"
        print(f"{file.name}: {said}", file=sys.stderr)
    return source


@contextmanager
def naming_group_column() -> Iterator[None]:
    """Name the flag of the column of groups as these commands do, whose --group is something else."""
    from glaim_stream.core.errors import SettingsError

    try:
        yield
    except SettingsError as error:
        raise type(error)(re.sub(r"--group (?=COLUMN|')", "--group-column ", str(error))) from error


def open_pieces(file: Path | None, messages: MessageFlags, form: FileFlags) -> PlainLong | None:
    """A file that can be read in pieces, to the readings and notes of `open_source`; None for another one."""
    from glaim_stream.files import plain_long

    if file is None or form != FileFlags() or messages.input_format is not InputFormat.SINGLE:
        return None
    found = plain_long(file)
    for note in () if found is None else found.notes:
        print(f"{file.name}: {note}", file=sys.stderr)
    return found


def require_known_groups(source: Source, rules: Catalogue, name: str) -> None:
    """Require that the catalogue has a model for some of the groups, and some of their sensors; name the others.

    Args:
        source: the readings.
        rules: the catalogue.
        name: name of the file for the message.

    Raises:
        SettingsError: it has none, so that no reading could be used.
    """
    from glaim_stream.core.errors import SettingsError, listed, unknown_name

    unknown = [group for group in source.groups if rules.model_of(group) is None]
    if len(unknown) < len(source.groups):
        _require_known_sensors(source, rules, name)
        if not unknown:
            return
        print(f"{name}: not in the catalogue, and left out: the groups {listed(unknown)}", file=sys.stderr)
        return
    known = [each for rule in rules.groups for each in (*rule.ids, rule.pattern) if each]
    found = unknown_name("a group of the catalogue", unknown[0], known)
    more = f", and {len(unknown) - 1} more groups that it lacks" if len(unknown) > 1 else ""
    raise SettingsError(f"{name}: {found}{more}; --name NAME names the group of a file that names none")


def _require_known_sensors(source: Source, rules: Catalogue, name: str) -> None:
    from glaim_stream.core.errors import SettingsError, listed, unknown_name

    models = {group: rules.models[index] for group in source.groups if (index := rules.model_of(group)) is not None}
    cells = [(models[group], sensor) for group, sensor in source.cells if group in models]
    unknown = list(dict.fromkeys(sensor for model, sensor in cells if sensor not in model.sensor_ids))
    if unknown and all(sensor not in model.sensor_ids for model, sensor in cells):
        model = cells[0][0]
        raise SettingsError(f"{name}: {unknown_name(f'a sensor of {model.name}', unknown[0], model.sensor_ids)}")
    if unknown:
        print(f"{name}: not in the catalogue, and left out: the sensors {listed(unknown)}", file=sys.stderr)


def require_other_files(given: Path | None, *written: Path | None) -> None:
    """Require that no file is written over the one that is read, or over another that is written.

    Raises:
        SettingsError: two are the same file.
    """
    from glaim_stream.core.errors import SettingsError

    files = [each for each in (given, *written) if each is not None]
    for index, file in enumerate(files):
        if any(file.resolve() == other.resolve() for other in files[:index]):
            raise SettingsError(f"expected another file to write than {file}, which the command reads or writes too")


def _between(source: Source, since: str | None, until: str | None, timezone: str) -> Source:
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.core.times import text_of_ms

    first, last = source.time_ms[0], source.time_ms[-1]
    chosen = source.between(*bounds_ms(since, until, timezone=timezone))
    if len(chosen) == 0:
        raise SettingsError(
            f"expected readings from {since or 'the beginning'} until {until or 'the end'}, "
            f"found only some from {text_of_ms(int(first))} to {text_of_ms(int(last))}"
        )
    return chosen
