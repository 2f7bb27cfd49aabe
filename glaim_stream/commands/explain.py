"""`glaim-stream explain`."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.flags import SettingsFlags, expand_flags
from glaim_stream.commands.options import File, Text
from glaim_stream.commands.sources import ColumnFlags, FileFlags, MessageFlags, PlantFlags

if TYPE_CHECKING:
    from glaim_stream.commands.explained_text import Cell
    from glaim_stream.core.catalogue import Catalogue as Rules
    from glaim_stream.core.settings import Settings
    from glaim_stream.operate.explain import Answers, CellEstimates, Estimate, Means, PublishedRow, Row
    from glaim_stream.pipeline import Pipeline


@dataclass(frozen=True)
class ExplainFlags(SettingsFlags):
    """Flags of the topics and the models."""

    kafka: Text = None
    input_topic: Text = None
    output_topic: Text = None
    catalogue: File = None
    model_repository: File = None


@expand_flags
def explain(
    *,
    group: Annotated[str, typer.Option(help="The group of the value.")],
    sensor: Annotated[str, typer.Option(help="Its sensor.")],
    ts: Annotated[str, typer.Option(help="A time in its step, ISO 8601.")],
    file: Annotated[
        Path | None,
        typer.Option(help="Explain the value that would be published for this file of readings: CSV or Parquet as for "
                     "`produce`, or raw messages: .jsonl, .arrows. Without it the published value is explained."),
    ] = None,
    one_group: Annotated[
        bool, typer.Option("--one-group", help="The file names no group: all its readings are of --group.")
    ] = False,
    columns: ColumnFlags,
    top: Annotated[int, typer.Option(min=1, help="Number of readings to list one by one.")] = 12,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON document.")] = False,
    stream: ExplainFlags,
) -> None:  # fmt: skip
    """Show which readings carry a filled value: their contributions in the sensor's unit, which add up to it.

    Exact for the closed form, interpolation and last value. For a network with a closed form beside it, the form's
    contributions and the network's correction; for a network alone, how much the value changes without each reading.
    """
    from glaim_stream.build import create_pipeline
    from glaim_stream.commands.explained_text import json_text, text_lines
    from glaim_stream.core.catalogue import read_catalogue
    from glaim_stream.operate.explain import CellEstimates, explain_published, explain_unpublished

    settings = stream.settings()
    rules = read_catalogue(settings.catalogue)
    cell = _cell(rules, group, sensor, ts, columns.timezone or "UTC")
    # The windows alone are needed. No rung with a model is built, and no probe is made.
    pipeline, _ = create_pipeline(settings.model_copy(update={"imputer": "interpolation"}), rules, upgrades=False)
    means = _means(settings, pipeline, cell)
    notes: list[str] = []
    estimates = CellEstimates(pipeline, group, cell.place, cell.ts_ms)
    if file is not None:
        window = _window_of_file(file, FileFlags(**asdict(columns), name=group if one_group else None), cell, estimates)
        done = explain_unpublished(window, cell.place, means)
    else:
        published = asyncio.run(_published(settings, rules, cell))
        row = _row(published, cell)
        window, notes = asyncio.run(_window_of_topic(settings, rules, cell, published, estimates))
        done = explain_published(row, window, cell.place, means)
    if as_json:
        print(json_text(done, cell, notes))
    else:
        for line in text_lines(done, cell, notes, top):
            print(line)


def _cell(rules: Rules, group: str, sensor: str, ts: str, timezone: str) -> Cell:
    from glaim_stream.commands.explained_text import Cell
    from glaim_stream.core.errors import SettingsError, unknown_name
    from glaim_stream.core.times import moment_ms

    index = rules.model_of(group)
    if index is None:
        known = [name for rule in rules.groups for name in (*rule.ids, rule.pattern) if name]
        raise SettingsError(unknown_name("a group of the catalogue", group, known))
    model = rules.models[index]
    if sensor not in model.sensor_ids:
        raise SettingsError(unknown_name(f"a sensor of {model.name}", sensor, model.sensor_ids))
    step = moment_ms(ts, timezone=timezone) // model.step_ms
    return Cell(model, group, sensor, model.sensor_ids.index(sensor), step * model.step_ms)


def _means(settings: Settings, pipeline: Pipeline, cell: Cell) -> Means:
    from glaim_stream.imputers import WatchedForm
    from glaim_stream.operate.explain import Means, network_answers
    from glaim_stream.output import SensorTable

    watched = WatchedForm(settings.model_repository / cell.model.name, cell.model, settings.trust)
    contract = pipeline.contracts.get(cell.model.name)
    table = SensorTable.of(cell.model, contract, watched.decimals)

    def network(lag: int) -> Answers:
        assert contract is not None
        return network_answers(settings, cell.model, contract, cell.place, lag)

    version = "" if contract is None else str(contract.version)
    return Means(watched.form, None if contract is None else network, version, table)


async def _published(settings: Settings, rules: Rules, cell: Cell) -> PublishedRow:
    from glaim_stream.commands.console import progress_bar
    from glaim_stream.operate.explain import find_published

    with progress_bar(settings.output_topic, "messages") as progress:
        return await find_published(settings, rules, cell.model, cell.group, cell.sensor, cell.ts_ms, progress)


def _row(published: PublishedRow, cell: Cell) -> Row:
    """The published row.

    Raises:
        SettingsError: it was measured, or has no value.
    """
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.core.vocabulary import METHODS, Method, Status
    from glaim_stream.operate.explain import Row

    found = published.row
    if found["observed"]:
        raise _measured(cell, found["value"])
    if found["value"] is None:
        status = found["status"]
        symbol = Status(status).symbol if status in list(Status) else f"0x{status:08X}"
        raise SettingsError(f"expected a value of {cell.name}, found null: {symbol}, gap age {found['gap_age']}")
    method = Method(METHODS.index(found["method"]))
    names = ("value", "revision", "gap_age", "lower", "upper")
    return Row(method=method, version=found["model_version"], **{name: found[name] for name in names})


def _measured(cell: Cell, value: float) -> Exception:
    from glaim_stream.core.errors import SettingsError

    return SettingsError(
        f"expected a filled value, found that {cell.name} was measured: {value:g} {cell.unit}".rstrip()
    )


async def _window_of_topic(
    settings: Settings, rules: Rules, cell: Cell, published: PublishedRow, estimates: CellEstimates
) -> tuple[Estimate, list[str]]:
    from glaim_stream.commands.console import progress_bar
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.operate.explain import read_input

    revision, notes = published.row["revision"], []
    with progress_bar(settings.input_topic, "records") as progress:
        part = await read_input(settings, rules, published, cell.ts_ms, estimates, progress)
    if part.begin == part.oldest > 0:
        notes.append(f"retention has removed the input before offset {part.begin}, and with it perhaps some readings")
    window = estimates.of_revision(revision)
    if window is None:
        estimates.close(silence=True)
        window = estimates.of_revision(revision)
        notes.append("the wall clock closed the step, so the worker may have had fewer readings of it")
    if window is None or window.values is None:
        raise SettingsError(
            f"expected the window of {cell.name}, revision {revision}, in {part.topic}-{part.partition} up to offset "
            f"{published.offset}, found none in {len(part)} records from offset {part.begin}"
        )
    return window, notes


def _window_of_file(file: Path, form: FileFlags, cell: Cell, estimates: CellEstimates) -> Estimate:
    from glaim_stream.commands.replay_input import FileInput
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.feed import InputFormat
    from glaim_stream.feed.replay import Dealer

    messages = MessageFlags(input_format=InputFormat.ARROW, batch=5_000)
    source = FileInput.open(file, PlantFlags(), messages, form, None, None)
    now_ms = time.time_ns() // 1_000_000
    for _, records, _ in Dealer(1, now_ms).deal(source.messages, 50):
        estimates.add(records, now_ms=now_ms)
    estimates.close()
    window = estimates.newest()
    if window is None:
        raise SettingsError(f"expected readings of {cell.group} around {cell.name} in the file, found {source.summary}")
    if not math.isnan(window.value):
        raise _measured(cell, window.value)
    if window.values is None:
        raise SettingsError(
            f"expected a gap of at most {cell.model.max_gap} steps at {cell.name}, found {window.gap_age}: null"
        )
    return window
