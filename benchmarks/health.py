"""Events about sensors on injected faults: what is found, when, who is named, and false alarms, beside simple rules.

    GLAIM_DATA=... python -m benchmarks.health

Habits and thresholds are learned from the first half of each set, and the second half is scored: the simulated plant,
and, where GLAIM_DATA names a folder that holds them, twelve stations of Beijing's air, ETTh1, ETTm1, and Weather. Every
other station and pump is learned from; the others are scored, and only their levels are learned.

False alarms are all events in the second half as it is. Real readings have faults of their own, so real sets give an
upper bound. Faults are injected one at a time into a random sensor, like those of the Numenta Anomaly Benchmark and of
SKAB. A fault is found by an event of its kind, or of a kind that follows from it, that names the sensor while the fault
lasts and that the readings as they are do not give.

The simple rules are those of a process control system with limits from the same readings: range (a tenth beyond what
was seen), rate of change (beyond the largest seen), a value repeated 12 times, and 12 steps without a reading.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks import data_sets, machine
from benchmarks.health_live import found_live
from glaim_stream.commands.gridded import gridded
from glaim_stream.feed import read_source
from glaim_stream.feed.plant import simulate
from glaim_stream.files import step_of
from glaim_stream.health import MEMORY, Event, Fault, GridSeries, detect, learn, onsets

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Random = np.random.Generator

LASTS = 192  # steps of a fault
_RULES_REPEATED = _RULES_SILENT = 12
_RULES_BEYOND = 0.1  # share of the range
_QUIET = 48
_REAL = {
    "ETTh1": "ETTh1.csv",
    "weather": "weather.csv",
    "beijing-air": "beijing_multisite.parquet",
    "ETTm1": "ETTm1.csv",
}

_LIKE = {Fault.LIMIT: Fault.FROZEN, Fault.CHATTER: Fault.SPIKING, Fault.OUTAGE: Fault.SILENT, Fault.SHIFT: Fault.DRIFT}
_OF_SEVERAL = ("outage", "shift", "drift")  # sensors: none of a pair is at fault

# Kinds of event that are right about a fault: a stuck sensor leaves its estimate too.
_RIGHT: dict[str, tuple[Fault, ...]] = {
    "frozen": (Fault.FROZEN, Fault.LIMIT, Fault.DRIFT),
    "limit": (Fault.FROZEN, Fault.LIMIT, Fault.DRIFT),
    "spiking": (Fault.SPIKING, Fault.CHATTER),
    "drift": (Fault.DRIFT,),
    "chatter": (Fault.CHATTER, Fault.SPIKING),
    "clock": (Fault.CLOCK,),
    "silent": (Fault.SILENT,),
    "outage": (Fault.OUTAGE,),
    "missingness": (Fault.MISSINGNESS,),
    "shift": (Fault.SHIFT,),
}


@dataclass(frozen=True)
class SimpleRules:
    """Simple rules: limits from learned readings, float64 [C]."""

    lowest: Doubles
    highest: Doubles
    fastest: Doubles

    @classmethod
    def learned(cls, groups: Sequence[GridSeries]) -> SimpleRules:
        """Learn the limits."""
        values = np.concatenate([np.where(each.observed, each.values, np.nan) for each in groups], axis=1)
        low, high = np.nanmin(values, axis=1), np.nanmax(values, axis=1)
        margin = _RULES_BEYOND * (high - low)
        steps = [np.abs(np.diff(np.where(each.observed, each.values, np.nan), axis=1)) for each in groups]
        return cls(low - margin, high + margin, np.nanmax(np.concatenate(steps, axis=1), axis=1))

    def alarms(self, series: GridSeries) -> Bools:
        """Return where a rule holds, bool [C, N]."""
        seen = np.where(series.observed, series.values, np.nan)
        with np.errstate(invalid="ignore"):
            out = (seen < self.lowest[:, None]) | (seen > self.highest[:, None])
            out[:, 1:] |= np.abs(np.diff(seen, axis=1)) > self.fastest[:, None]
        run, age = np.zeros(len(seen), np.int64), np.zeros(len(seen), np.int64)
        last = np.full(len(seen), np.nan)
        for step in range(series.steps):
            there = series.observed[:, step]
            run = np.where(there, np.where(seen[:, step] == last, run + 1, 1), run)
            last = np.where(there, seen[:, step], last)
            age = np.where(there, 0, age + 1)
            out[:, step] |= (there & (run >= _RULES_REPEATED)) | (age >= _RULES_SILENT)
        return out


@dataclass(frozen=True)
class Set:
    """Series to learn from, and series to score."""

    name: str
    sensors: tuple[str, ...]
    learned: list[GridSeries]
    levels: list[GridSeries]  # the same time of the groups that are scored, for their levels alone
    scored: list[GridSeries]


def sets(data: Path | None) -> list[Set]:
    """The simulated plant, and the real sets that are there."""
    plant = simulate(28.0, groups=8, seed=5)
    observed = np.ones(plant.values.shape[1:], np.bool_)
    zeros = np.zeros(observed.shape)
    first = int(plant.times_ms[0]) // 60_000
    groups = [
        GridSeries(name, first, 60_000, values.astype(np.float64), observed, zeros)
        for name, values in zip(plant.groups, plant.values, strict=True)
    ]
    out = [_halved("plant", plant.sensor_ids, groups)]
    for name, file in _REAL.items():
        path = None if data is None else data / file
        if path is None or not path.is_file():
            print(f"{name}: expected {file} in GLAIM_DATA, found none; it is left out", file=sys.stderr)
            continue
        source = read_source(path, missing=("-9999",) if name == "weather" else ())
        step_ms = step_of([np.unique(source.time_ms)])
        found = gridded(source.cells, source.cell, source.time_ms, source.value, step_ms)
        out.append(_halved(name, found.sensors, found.groups))
    return out


def _halved(name: str, sensors: Sequence[str], groups: Sequence[GridSeries]) -> Set:
    half = groups[0].steps // 2
    learned = groups if len(groups) == 1 else groups[::2]
    scored = groups if len(groups) == 1 else groups[1::2]
    return Set(
        name,
        tuple(sensors),
        [each.part(0, half) for each in learned],
        [each.part(0, half) for each in scored],
        [each.part(half - MEMORY, each.steps) for each in scored],
    )


@dataclass(frozen=True)
class Injected:
    """A series with a fault: its sensors, and its first step."""

    series: GridSeries
    sensors: tuple[int, ...]
    start: int


def inject(fault: str, series: GridSeries, scale: Doubles, highest: Doubles, random: Random) -> Injected:
    """Inject a fault that lasts LASTS steps, MEMORY steps after the beginning.

    Args:
        fault: one of `_RIGHT`.
        series: MEMORY + LASTS steps or more.
        scale: float64 [C], deviation of the sensors' readings.
        highest: float64 [C].
        random: draws the sensor and the fault.
    """
    count, start = len(series.values), MEMORY
    while True:
        sensor = int(random.integers(count))
        if series.observed[sensor, start - 96 : start + LASTS].mean() > 0.5:
            break
    values, observed = series.values.copy(), series.observed.copy()
    offset = np.zeros(values.shape) if series.offset is None else series.offset.copy()
    cut = slice(start, start + LASTS)
    row = values[sensor, cut]
    sensors: tuple[int, ...] = (sensor,)
    sign = random.choice((-1.0, 1.0))
    ramp = np.minimum(np.arange(LASTS) / (LASTS / 2), 1.0)
    match fault:
        case "frozen":
            before = np.flatnonzero(observed[sensor, : start + 1])
            row[:] = values[sensor, before[-1]]
        case "limit":
            row[:] = highest[sensor]
        case "spiking":
            hit = random.random(LASTS) < 0.1
            row += hit * random.choice((-1.0, 1.0), LASTS) * random.uniform(3.0, 10.0, LASTS) * scale[sensor]
        case "drift":
            row += sign * 5.0 * ramp * scale[sensor]
        case "chatter":
            row += 1.5 * scale[sensor] * (-1.0) ** np.arange(LASTS)
        case "clock":
            offset[sensor, cut] = random.uniform(-0.5, 0.5, LASTS)
            observed[sensor, cut] &= random.random(LASTS) > 0.1
        case "silent":
            observed[sensor, cut] = False
        case "outage":
            sensors = tuple(sorted(random.permutation(count)[: min(8, count - 1)].tolist()))
            observed[list(sensors), cut] = False
        case "missingness":
            observed[sensor, cut] &= random.random(LASTS) > 0.4
        case "shift":
            sensors = tuple(range(count))
            values[:, cut] += (random.choice((-1.0, 1.0), count) * 5.0 * scale)[:, None] * ramp
        case _:
            raise ValueError(f"expected one of {tuple(_RIGHT)}, found {fault!r}")
    return Injected(replace(series, values=values, observed=observed, offset=offset), sensors, start)


def _new(found: Sequence[Event], clean: Sequence[Event], first_ms: int, step_ms: int) -> list[Event]:
    """Return the events since a moment that the unchanged readings do not have.

    An event counts as theirs if one of theirs has a similar kind, names one of its sensors, and is at most a quiet time
    away: an event of six sensors remains when one of them gets another fault.
    """

    def given(event: Event) -> bool:
        return any(
            _LIKE.get(each.kind, each.kind) == _LIKE.get(event.kind, event.kind)
            and set(each.sensors) & set(event.sensors)
            and abs(each.ts_ms - event.ts_ms) <= _QUIET * step_ms
            for each in clean
        )

    return [each for each in found if each.ts_ms >= first_ms and not given(each)]


@dataclass(frozen=True)
class Detector:
    """The detection of the events of a series after its first MEMORY steps, in a file or in a worker's windows."""

    find: Callable[[GridSeries], list[Event]]
    live: bool


def measure(each: Set, injections: int, seed: int) -> list[dict[str, Any]]:
    """Learn from one half of a set and score the other; one line for each fault, of files and of the stream."""
    started = time.process_time()
    habits = learn(each.learned, each.sensors)
    learned_s = time.process_time() - started
    habits = habits.with_groups(each.levels)
    rules = SimpleRules.learned(each.learned)
    days = sum(series.sensor_days * (series.steps - MEMORY) / series.steps for series in each.scored)
    rule_alarms = sum(int(onsets(rules.alarms(series), _QUIET)[:, MEMORY:].sum()) for series in each.scored)
    cells = sum(series.values.size for series in each.scored)
    detectors = (
        Detector(lambda series: detect(habits, series, MEMORY), live=False),
        Detector(lambda series: found_live(habits, series, MEMORY, each.sensors), live=True),
    )
    alarms = []
    for detector in detectors:
        started = time.process_time()
        alarms.append([event for series in each.scored for event in detector.find(series)])
        detect_s = time.process_time() - started
        print(
            f"{_of_set(each.name, detector.live)}: learned in {learned_s:.1f} s; {detect_s / cells * 1e9:,.0f} ns a "
            f"reading; {days:,.0f} sensor-days; {len(alarms[-1])} events as it is",
            file=sys.stderr,
        )
    mean = ", ".join(f"{name} {value.mean():.2f}" for name, value in habits.threshold.items())
    print(f"{each.name}: mean thresholds {mean}", file=sys.stderr)
    scale = np.nanstd(
        np.concatenate([np.where(part.observed, part.values, np.nan) for part in each.learned], axis=1), axis=1
    )
    lines: list[dict[str, Any]] = []
    for number, fault in enumerate(fault for fault in _RIGHT if len(each.sensors) > 2 or fault not in _OF_SEVERAL):
        random = np.random.default_rng([seed, number])
        cases = [_case(fault, each, scale, habits.highest, random) for _ in range(injections)]
        ruled = _ruled(rules, cases)
        for detector, found in zip(detectors, alarms, strict=True):
            own = sum(str(event.kind) == fault for event in found)
            lines.append(
                {"set": each.name, "fault": fault, "live": detector.live}
                | _scored(fault, each.sensors, detector, cases)
                | ruled
                | {
                    "false_alarms_per_1000_sensor_days": round(1000 * own / days, 2),
                    "false_alarms_of_all_kinds": round(1000 * len(found) / days, 2),
                    "rules_false_alarms_per_1000_sensor_days": round(1000 * rule_alarms / days, 2),
                    "sensor_days": round(days),
                }
            )
    return lines


@dataclass(frozen=True)
class FaultCase:
    """A stretch unchanged, and with a fault that begins at `first_ms`."""

    clean: GridSeries
    made: Injected

    @property
    def first_ms(self) -> int:
        """Start of the fault's first step."""
        return (self.clean.first + self.made.start) * self.clean.step_ms


def _case(fault: str, each: Set, scale: Doubles, highest: Doubles, random: Random) -> FaultCase:
    series = each.scored[int(random.integers(len(each.scored)))]
    at = int(random.integers(0, series.steps - MEMORY - LASTS))
    clean = series.part(at, at + MEMORY + LASTS)
    return FaultCase(clean, inject(fault, clean, scale, highest, random))


def _scored(fault: str, sensors: Sequence[str], detector: Detector, cases: Sequence[FaultCase]) -> dict[str, Any]:
    delays, one, culprit, named = list[int](), 0, 0, 0
    for case in cases:
        first_ms = case.first_ms
        events = _new(detector.find(case.made.series), detector.find(case.clean), first_ms, case.clean.step_ms)
        names = {sensors[place] for place in case.made.sensors}
        hits = [event for event in events if event.kind in _RIGHT[fault] and names & set(event.sensors)]
        if hits:
            delays.append((hits[0].ts_ms - first_ms) // case.clean.step_ms)
        one += len(events) == 1
        about = [event for event in events if event.kind in (Fault.DRIFT, Fault.SHIFT)] if fault == "drift" else events
        named += bool(about)
        culprit += bool(about) and all(set(event.sensors) <= names for event in about)
    return {
        "injections": len(cases),
        "found": round(len(delays) / len(cases), 3),
        "delay_steps_p50": float(np.median(delays)) if delays else None,
        "one_event": round(one / len(cases), 3),
        "only_culprits_named": round(culprit / named, 3) if named else None,
    }


def _ruled(rules: SimpleRules, cases: Sequence[FaultCase]) -> dict[str, Any]:
    """Return the same faults as found by the simple rules."""
    delays = []
    for case in cases:
        before, after = rules.alarms(case.clean), rules.alarms(case.made.series)
        raised = (after & ~before)[list(case.made.sensors), case.made.start :].any(axis=0)
        if raised.any():
            delays.append(int(np.argmax(raised)))
    return {
        "rules_found": round(len(delays) / len(cases), 3),
        "rules_delay_steps_p50": float(np.median(delays)) if delays else None,
    }


def _of_set(name: str, live: bool) -> str:
    return f"{name}, live" if live else name


def _table(title: str, lines: Sequence[dict[str, Any]]) -> Table:
    table = Table(title=title)
    columns: list[tuple[str, Callable[[dict[str, Any]], str]]] = [
        ("set", lambda line: line["set"]),
        ("fault", lambda line: line["fault"] + (" (live)" if line["live"] else "")),
        ("found", lambda line: f"{line['found']:.0%}"),
        ("delay", lambda line: "" if line["delay_steps_p50"] is None else f"{line['delay_steps_p50']:.0f}"),
        (
            "only culprits",
            lambda line: "" if line["only_culprits_named"] is None else f"{line['only_culprits_named']:.0%}",
        ),
        ("one event", lambda line: f"{line['one_event']:.0%}"),
        ("false", lambda line: f"{line['false_alarms_per_1000_sensor_days']:.1f}"),
        ("rules found", lambda line: f"{line['rules_found']:.0%}"),
        (
            "rules delay",
            lambda line: "" if line["rules_delay_steps_p50"] is None else f"{line['rules_delay_steps_p50']:.0f}",
        ),
    ]
    for name, _ in columns:
        table.add_column(name)
    for line in lines:
        table.add_row(*(text(line) for _, text in columns))
    return table


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table and keep the lines."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.health", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--injections", type=int, default=60, help="of each fault into each set (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the injections (default: %(default)s)")
    parser.add_argument("--set", action="append", help="only this set; repeatable")
    given = parser.parse_args(arguments)
    command = f"python -m benchmarks.health --injections {given.injections} --seed {given.seed}"
    described = machine.describe(command)
    lines = []
    for each in sets(data_sets.named_folder()):
        if given.set and each.name not in given.set:
            continue
        found = measure(each, given.injections, given.seed)
        for line in found:
            machine.append("health", described | line)
        lines += found
    console = Console()
    console.print(_table(command, lines))
    for line in {(line["set"], line["live"]): line for line in lines}.values():
        console.print(
            f"{_of_set(line['set'], line['live'])}: {line['false_alarms_of_all_kinds']:.1f} false alarms of all kinds "
            "in 1,000 sensor-days, "
            f"simple rules {line['rules_false_alarms_per_1000_sensor_days']:.1f} ({line['sensor_days']:,} sensor-days)"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
