"""`glaim-stream dump`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.flags import SettingsFlags, expand_flags
from glaim_stream.commands.moments import MOMENT, bounds_ms
from glaim_stream.commands.options import File, OffsetFlags, Text
from glaim_stream.commands.signals import exit_at_sigterm

if TYPE_CHECKING:
    from glaim_stream.core.catalogue import Catalogue as Rules
    from glaim_stream.core.settings import Settings
    from glaim_stream.kafka import Range


@dataclass(frozen=True)
class DumpFlags(SettingsFlags):
    """Flags of the input topic and its models."""

    kafka: Text = None
    input_topic: Text = None
    catalogue: File = None


@expand_flags
def dump(
    *,
    out: Annotated[Path, typer.Option(help="The file, .parquet or .csv; it appears whole at the end.")],
    since: Annotated[
        str | None,
        typer.Option("--since", help=f"Only records at or after this time, {MOMENT}."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only records before this time, likewise.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Only readings of this model's groups. [default: the catalogue's only model]")
    ] = None,
    offsets: OffsetFlags,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Leave a file that exists and do nothing, so that a run that is resumed continues "
                     "with the data that it began with."),
    ] = False,
    with_late: Annotated[
        bool,
        typer.Option("--with-late", help="Also write readings that came too late for their window, as a backfill does. "
                     "Their times may be wrong."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be read, and write nothing.")] = False,
    stream: DumpFlags,
) -> None:  # fmt: skip
    """Write readings of the input topic to a file for training, one row per reading: time, group, sensor, value.

    Train with: python -m training.fit FILE
    """
    from glaim_stream.commands.console import progress_bar
    from glaim_stream.core.catalogue import read_catalogue
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.core.times import text_of_ms
    from glaim_stream.kafka import ENDINGS
    from glaim_stream.kafka import dump as write

    if out.suffix not in ENDINGS:
        raise SettingsError(f"expected a file ending in {' or '.join(ENDINGS)}, found {out}")
    exit_at_sigterm()
    if keep and out.exists():
        print(f"{out}: exists, left as it is")
        return
    settings = stream.settings()
    rules = read_catalogue(settings.catalogue)
    name = only_model(rules, model)
    since_ms, until_ms = bounds_ms(since, until)
    ranges = asyncio.run(_ranges(settings, offsets, since_ms, until_ms))
    for part in ranges:
        kept = " (all that retention has kept)" if part.begin == part.oldest > 0 else ""
        print(f"{part.topic}-{part.partition}: offsets {part.begin} to {part.end}, {len(part)} records{kept}")
    if dry_run:
        print(f"would write the readings of {name} to {out}")
        return
    with progress_bar(settings.input_topic, "records") as progress:
        done = asyncio.run(write(settings, rules, ranges, out, model=name, with_late=with_late, on_progress=progress))
    assert done.first_ms is not None
    assert done.last_ms is not None
    print(
        f"{out}: {done.rows} readings of {done.groups} groups of {name}, from {text_of_ms(done.first_ms)} to "
        f"{text_of_ms(done.last_ms)}; {done.dropouts} more are dropouts, {done.other_models} are of other models"
    )
    if done.late:
        done.rejects["too late for their window (--with-late writes them)"] += done.late
    if done.rejects:
        causes = ", ".join(f"{count} {cause}" for cause, count in done.rejects.most_common())
        print(f"left out, as the worker does: {causes}")
    dumped = next(each for each in rules.models if each.name == name)
    if dumped.bucket == "mean":
        turning = [sensor.id for sensor in dumped.sensors if sensor.is_direction]
        needed = '`bucket = "mean"`' + (f" and `directions = {json.dumps(turning)}`" if turning else "")
        print(f"note: {name} takes the mean of a step's readings, so training needs {needed} in its [data]")


def only_model(rules: Rules, requested: str | None) -> str:
    """Name of the requested model, or of the catalogue's only one.

    Raises:
        SettingsError: there are several, or the catalogue has no such model.
    """
    from glaim_stream.core.errors import SettingsError, listed, unknown_name

    names = [model.name for model in rules.models]
    if requested is None and len(names) == 1:
        return names[0]
    if requested is None:
        raise SettingsError(f"the catalogue has several models: name one with --model, of {listed(names)}")
    if requested not in names:
        raise SettingsError(unknown_name("a model of the catalogue", requested, names))
    return requested


async def _ranges(settings: Settings, offsets: OffsetFlags, since_ms: int | None, until_ms: int | None) -> list[Range]:
    from glaim_stream.kafka import reader

    async with reader(settings) as consumer:
        return await offsets.ranges(settings, consumer, since_ms, until_ms)
