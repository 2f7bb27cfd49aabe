"""`glaim-stream health`: which sensors of a file are frozen, drifting, spiking, silent, and since when."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.flags import expand_flags
from glaim_stream.commands.sources import FileFlags, PlantFlags, open_source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glaim_stream.commands.gridded import Gridded
    from glaim_stream.feed import Source
    from glaim_stream.health import Event

_RATE = 10.0
_SHARE = 0.5  # of the file's time that is learned from


@dataclass(frozen=True)
class HealthOutcome:
    """Events of a file, and what they were judged by.

    learned_from_ms, judged_from_ms, judged_until_ms: bounds of what was learned from and of what was judged.
    sensor_days: that were judged.
    not_judged: sensors of groups with too few readings to learn from.
    expected: number of false alarms that healthy sensors give in these sensor-days.
    """

    events: list[Event]
    learned_from_ms: int
    judged_from_ms: int
    judged_until_ms: int
    sensor_days: float
    not_judged: list[tuple[str, str]]
    expected: float


@expand_flags
def health(
    file: Annotated[Path, typer.Argument(help="Readings: a file as for `produce`.")],
    *,
    normal_until: Annotated[
        str | None,
        typer.Option(
            help="The sensors were healthy before this time, ISO 8601: what is usual is learned from there, and later "
            "readings are judged. [default: the middle of the file]"
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0.001, help="False alarms in 1,000 sensor-days that are accepted.")
    ] = _RATE,
    form: FileFlags,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON document.")] = False,
) -> None:
    """Report faulty sensors: frozen, at a limit, spiking, drifting, chattering, stuttering, silent, or full of gaps.

    What is usual of each sensor is learned from the first part of the file, and the rest is judged by it. A sensor that
    drifts away from its estimate by the others is named without its neighbours as a rule; what happens to several
    sensors at once is one event.
    """
    from glaim_stream.commands.moments import bounds_ms
    from glaim_stream.core.printable import printable

    source = open_source(file, PlantFlags(), form)
    found = _gridded(source, file.name)
    until_ms = bounds_ms(None, normal_until, timezone=form.timezone or "UTC")[1]
    outcome = judge(found, until_ms, rate)
    if as_json:
        _print_json(outcome, source.withheld)
    else:
        _print_table(outcome)
        if source.withheld:
            print(printable(f"not judged, as doubtful or no number: {source.withheld_note}"))


def judge(found: Gridded, normal_until_ms: int | None, rate: float) -> HealthOutcome:
    """Learn from the readings before a moment, and judge the others.

    Args:
        found: all readings.
        normal_until_ms: the moment; None: the middle.
        rate: false alarms in 1,000 sensor-days.

    Raises:
        SettingsError: there are too few steps before the moment, or none after it.
    """
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.core.times import text_of_ms
    from glaim_stream.health import FEWEST_STEPS, detect, learn

    first = found.groups[0]
    cut = int(_SHARE * first.steps) if normal_until_ms is None else -(-normal_until_ms // first.step_ms) - first.first
    if not FEWEST_STEPS <= cut < first.steps:
        raise SettingsError(
            f"expected {FEWEST_STEPS} steps to learn from and some to judge, found {max(0, min(cut, first.steps))} of "
            f"{first.steps:,} steps from {text_of_ms(first.first * first.step_ms)} to "
            f"{text_of_ms((first.first + first.steps) * first.step_ms)} before the moment that parts them: give more "
            "readings, or another moment by --normal-until"
        )
    habits = learn([each.part(0, cut) for each in found.groups], found.sensors, rate=rate)
    events = [event for each in found.groups for event in detect(habits, each, cut)]
    days, not_judged = 0.0, []
    for each in found.groups:
        judged = habits.judged[each.group]
        readings = each.observed.sum(axis=1).tolist()
        not_judged += [
            (each.group, sensor)
            for sensor, known, count in zip(found.sensors, judged.tolist(), readings, strict=True)
            if count and not known
        ]
        days += int(judged.sum()) * (each.steps - cut) * each.step_ms / 86_400_000
    return HealthOutcome(
        sorted(events, key=lambda event: (event.ts_ms, event.group, event.kind)),
        first.first * first.step_ms,
        (first.first + cut) * first.step_ms,
        (first.first + first.steps) * first.step_ms,
        days,
        not_judged,
        rate * days / 1000.0,
    )


def _gridded(source: Source, name: str) -> Gridded:
    """Readings on a grid; what was left out is reported on standard error."""
    import numpy as np

    from glaim_stream.commands.gridded import gridded
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.core.stray_times import stray_times
    from glaim_stream.files import step_of

    stray = stray_times(source.time_ms)
    if stray.any():
        print(f"{name}: {int(stray.sum()):,} readings of times far from all others are left out", file=sys.stderr)
        source = source.where(~stray)
    order = np.argsort(source.cell, kind="stable")
    times = np.split(source.time_ms[order], np.flatnonzero(np.diff(source.cell[order])) + 1)
    try:
        step_ms = step_of(times)
    except SettingsError as error:
        raise SettingsError(f"{name}: expected sensors with two readings and more, found none") from error
    found = gridded(source.cells, source.cell, source.time_ms, source.value, step_ms)
    if found.shared:
        print(f"{name}: {found.shared:,} readings share a step with a later one of their sensor", file=sys.stderr)
    return found


def _print_json(outcome: HealthOutcome, withheld: Mapping[str, int]) -> None:
    import json

    from glaim_stream.core.times import text_of_ms

    document = {
        "learned_from": text_of_ms(outcome.learned_from_ms),
        "judged_from": text_of_ms(outcome.judged_from_ms),
        "judged_until": text_of_ms(outcome.judged_until_ms),
        "sensor_days": round(outcome.sensor_days, 2),
        "false_alarms_expected": round(outcome.expected, 2),
        "not_judged": [{"group": group, "sensor": sensor} for group, sensor in outcome.not_judged],
        "withheld": dict(withheld),
        "events": [each.document() for each in outcome.events],
    }
    print(json.dumps(document, ensure_ascii=False, indent=2))


def _print_table(outcome: HealthOutcome) -> None:
    from rich.table import Table

    from glaim_stream.commands.console import result_console
    from glaim_stream.core.errors import listed
    from glaim_stream.core.printable import printable
    from glaim_stream.core.times import text_of_ms

    if outcome.events:
        table = Table("noticed", "since", "group", "kind", "sensors")
        for each in outcome.events:
            times = text_of_ms(each.ts_ms), text_of_ms(each.since_ms)
            table.add_row(*times, printable(each.group), str(each.kind), printable(", ".join(each.sensors)))
        result_console().print(table)
    count = len(outcome.events)
    print(
        f"{count:,} event{'' if count == 1 else 's'} in {outcome.sensor_days:,.1f} sensor-days from "
        f"{text_of_ms(outcome.judged_from_ms)} to {text_of_ms(outcome.judged_until_ms)}, judged by the readings since "
        f"{text_of_ms(outcome.learned_from_ms)}; healthy sensors would give about {outcome.expected:.2g}"
    )
    if outcome.not_judged:
        names = [f"{group} {sensor}" for group, sensor in outcome.not_judged]
        print(printable(f"not judged, with too few readings to learn from: {listed(names)}"))
