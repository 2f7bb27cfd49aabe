"""`glaim-stream learn`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.dump import only_model
from glaim_stream.commands.exit_codes import TERMINATED
from glaim_stream.commands.flags import SettingsFlags, expand_flags
from glaim_stream.commands.moments import MOMENT, bounds_ms
from glaim_stream.commands.options import File, OffsetFlags, Text
from glaim_stream.commands.signals import exit_at_sigterm
from glaim_stream.commands.sources import FileFlags, MessageFlags, PlantFlags, require_known_groups

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glaim_stream.core.catalogue import Catalogue as Rules
    from glaim_stream.core.settings import Settings
    from glaim_stream.form import FormSeries
    from glaim_stream.operate.learn import Collector, Learned

_GRACE_S = 30.0  # for the end by SIGTERM, which waits for a step of the fit and for the broker
_FILE_BATCH = 5_000  # readings of an Arrow message that a file's readings are put into


@dataclass(frozen=True)
class LearnFlags(SettingsFlags):
    """Flags of the input topic and the models."""

    kafka: Text = None
    input_topic: Text = None
    catalogue: File = None
    model_repository: File = None


@expand_flags
def learn(
    *,
    data: Annotated[
        Path | None,
        typer.Option(help="CSV or Parquet as for `produce`, or raw messages: .jsonl, .arrows. Without it the input "
                     "topic is read."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help=f"Only a file's readings, or a topic's records, at or after this time, "
                     f"{MOMENT}."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only those before this time, likewise.")] = None,
    model: Annotated[
        str | None, typer.Option(help="The model whose groups are learned. [default: the catalogue's only model]")
    ] = None,
    offsets: OffsetFlags,
    form: FileFlags,
    newest: Annotated[
        int | None, typer.Option(min=1, help="Read at most this many of the topic's newest records.")
    ] = None,
    most: Annotated[
        int | None,
        typer.Option(min=1, help="Most readings to keep in memory; beyond it, learn fewer groups. [default: 20 M]"),
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, hidden=True, help="Learn at most this many newest rows.")] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Place the new form even if it is not better, lost a sensor, or could not be tried."
        ),
    ] = False,
    untried: Annotated[
        bool,
        typer.Option("--untried", help="Place the first form while there are too few rows to try it: two windows."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as one JSON object.")] = False,
    while_open: Annotated[
        bool,
        typer.Option("--while-open", hidden=True, help="End once standard input is closed: the caller is dead."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read, fit and compare, and write nothing.")] = False,
    stream: LearnFlags,
) -> None:  # fmt: skip
    """Fit the closed form of a model to readings in seconds, and place it where workers take it up while they run.

    It replaces the one in use only if it is better on the newest rows, which neither has seen, and has readings of all
    sensors that the one in use knows; the first one must beat interpolation and last value there. Readings that are
    bad, uncertain, duplicates or outside of the limits, and those of stuck sensors, are not learned. --timezone is also
    the zone of the habits of the day.
    """
    from glaim_stream.core.catalogue import read_catalogue
    from glaim_stream.core.errors import ModelError, SettingsError
    from glaim_stream.operate.learn import MOST_READINGS, Collector, Learned
    from glaim_stream.operate.learn import learn as fit_and_place

    exit_at_sigterm()
    if while_open:
        Thread(target=_end_when_closed, daemon=True).start()
    settings = stream.settings()
    if settings.manifest_key:
        raise SettingsError(
            "GLAIM_MANIFEST_KEY is set: workers refuse forms without a signature. Learn for another repository without "
            "the key, sign gaussian.manifest.json there, and `glaim-stream models push` it"
        )
    rules = read_catalogue(settings.catalogue)
    name = only_model(rules, model)
    entry = next(each for each in rules.models if each.name == name)
    collector = Collector(rules, name, settings.budget, most=most or MOST_READINGS)
    since_ms, until_ms = bounds_ms(since, until)
    if data is not None:
        if offsets.given or newest is not None:
            raise SettingsError("offsets, --partition and --newest are for the topic: a file has --since and --until")
        _read_file(data, form, rules, since_ms, until_ms, collector)
    else:
        if settings.input_topic == settings.output_topic:
            raise SettingsError(
                f"expected the topic of the readings, found that of the filled rows, {settings.output_topic}"
            )
        asyncio.run(_read_topic(settings, offsets, since_ms, until_ms, newest, collector))
    series = collector.series()
    if rows is not None:
        series = series.rows(max(0, series.steps - rows), series.steps)
    if not as_json:
        _print_readings(series, collector)
    print(f"{name}: fitting {series.steps} rows", file=sys.stderr, flush=True)
    start_s = time.monotonic()
    folder = settings.model_repository / name
    try:
        done = fit_and_place(
            series, entry, folder, groups=collector.groups, decimals=collector.decimals,
            timezone=form.timezone or "UTC", force=force, untried=untried, dry_run=dry_run,
        )  # fmt: skip
    except ModelError as error:
        if not as_json:
            raise
        done = Learned(None, None, False, str(error))
    if as_json:
        _print_json(done, series)
    else:
        _print(done, folder, time.monotonic() - start_s, dry_run=dry_run)


def _end_when_closed() -> None:
    """End this process once no other one has the writing end of standard input."""
    with suppress(OSError):
        while os.read(sys.stdin.fileno(), 1024):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_S)
    os._exit(TERMINATED)


def _read_file(
    file: Path, form: FileFlags, rules: Rules, since_ms: int | None, until_ms: int | None, collector: Collector
) -> None:
    from glaim_stream.commands.console import progress_bar
    from glaim_stream.commands.replay_input import FileInput
    from glaim_stream.core.times import text_of_ms
    from glaim_stream.feed import InputFormat
    from glaim_stream.feed.replay import Dealer

    since, until = (None if moment is None else text_of_ms(moment) for moment in (since_ms, until_ms))
    messages = MessageFlags(input_format=InputFormat.ARROW, batch=_FILE_BATCH)
    source = FileInput.open(file, PlantFlags(), messages, form, since, until, by_group=True)
    if source.source is not None:
        collector.from_table = True
        if (count := sum(source.source.withheld.values())) > 0:
            collector.left_out["doubtful in the file, or no number"] = count
        require_known_groups(source.source, rules, source.name)
    now_ms = time.time_ns() // 1_000_000
    with progress_bar(file.name, "messages") as progress:
        for _, records, taken in Dealer(1, now_ms).deal(source.messages, 50):
            collector.add(records, now_ms=now_ms)
            progress(taken, source.total)


async def _read_topic(
    settings: Settings,
    offsets: OffsetFlags,
    since_ms: int | None,
    until_ms: int | None,
    newest: int | None,
    collector: Collector,
) -> None:
    from glaim_stream.commands.console import progress_bar
    from glaim_stream.kafka import read_range, reader

    async with reader(settings) as consumer:
        ranges = await offsets.ranges(settings, consumer, since_ms, until_ms)
        if newest is not None:  # a share of them each
            each = -(-newest // len(ranges))
            ranges = [replace(part, begin=max(part.begin, part.end - each)) for part in ranges]
        total, done = sum(map(len, ranges)), 0
        with progress_bar(settings.input_topic, "records") as progress:
            for part in ranges:
                async for records in read_range(consumer, part):
                    collector.add(records, now_ms=time.time_ns() // 1_000_000)
                    done += len(records)
                    progress(done, total)


def _print_readings(series: FormSeries, collector: Collector) -> None:
    from glaim_stream.core.times import text_of_ms

    first, last = text_of_ms(series.start_ms), text_of_ms(int(series.times_ms[-1]))
    print(f"{collector.readings} readings of {len(series.values)} groups, {series.steps} rows from {first} to {last}")
    if collector.left_out:
        causes = ", ".join(f"{count} {reason}" for reason, count in collector.left_out.most_common())
        print(f"not learned: {causes}")


def _print_json(done: Learned, series: FormSeries) -> None:
    outcome = {
        "rows": series.steps,
        "until_ms": series.start_ms + series.steps * series.step_ms,
        "chosen": done.chosen,
        "digest": "" if done.form is None else done.form.digest,
        "reason": done.reason,
        "no_habits": done.no_habits,
        "errors": done.errors,
    }
    print(json.dumps(outcome))


def _print(done: Learned, folder: Path, seconds: float, *, dry_run: bool) -> None:
    from glaim_stream.core.errors import listed
    from glaim_stream.operate.learn import target

    if done.problem:
        print(f"the file in place cannot be used: {done.problem}")
    if done.report is not None and done.report.kinds:
        print("not plain numbers: " + ", ".join(f"{sensor} {kind}" for sensor, kind in done.report.kinds.items()))
    if done.errors:
        _print_errors(done.errors)
    if done.form is not None and done.form.unseen.any():
        names = [name for name, unseen in zip(done.form.sensors, done.form.unseen.tolist(), strict=True) if unseen]
        print(f"without a reading to learn from, so interpolation fills them: {listed(names)}")
    if not done.chosen or done.form is None:
        print(f"{target(folder)}: unchanged; {done.reason}")
        return
    verb = "would get" if dry_run else "has now"
    print(f"{target(folder)}: {verb} the closed form {done.form.digest[:8]}, after {seconds:.1f} s; {done.reason}")
    if done.no_habits:
        print(f"without habits of the sensors, so their health is not judged live: {done.no_habits}")
    elif not dry_run:
        print("it has the habits of the sensors, by which workers judge their health")


def _print_errors(errors: Mapping[str, Mapping[str, float]]) -> None:
    cases = list(next(iter(errors.values())))
    if not cases:
        return
    print("root mean square error, in deviations of each sensor:")
    width = max(map(len, errors)) + 2
    print(" " * width + "".join(f"{case:>12}" for case in cases))
    for method, found in errors.items():
        print(f"{method:<{width}}" + "".join(f"{found[case] ** 0.5:12.4f}" for case in cases))
