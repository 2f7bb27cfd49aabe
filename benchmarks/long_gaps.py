"""What files say of gaps longer than a window, beside the truth.

    GLAIM_DATA=... python -m benchmarks.long_gaps

Of ETTh1, ETTm1, Weather and two stations of Beijing's air, 3,000 steps are filled in which one sensor is silent for 400
or 500 steps, or for the last 1,200; each of the first sensors in turn. The error that the fill expects in gaps of more
than 48 steps is compared with the true one, and the band with the share of the truth in it.

With --blocks, also of ETTh2, blocks of 60, 150 and 300 steps are hidden in each of the first five sensors, at times of
their own or in all at once, and filled by a stated longest gap. The error is divided by that of the better of line and
last value, by sensor; jumps are in the sensor's own largest steps.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks import data_sets, machine
from glaim_stream.commands.gridded import gridded
from glaim_stream.feed import read_source
from glaim_stream.files import step_of
from glaim_stream.form import interpolation, last_value
from glaim_stream.tables import Group, fill_groups

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class DataPart:
    """A part of a data set, in which its sensors are in use."""

    name: str
    file: str
    missing: tuple[str, ...]
    groups: int
    first: int
    steps: int


_PARTS = (
    DataPart("ETTh1", "ETTh1.csv", (), 1, 0, 3000),
    DataPart("ETTm1", "ETTm1.csv", (), 1, 0, 3000),
    DataPart("weather", "weather.csv", ("-9999",), 1, 20_000, 3000),
    DataPart("beijing-air", "beijing_multisite.parquet", (), 2, 20_000, 3000),
)
_SECOND = DataPart("ETTh2", "ETTh2.csv", (), 1, 0, 3000)
_BLOCKS = {60: 4, 150: 4, 300: 2}  # by length in steps: blocks of a sensor
_SILENCES = ((1000, 1400), (2500, 3000), (1800, 3000))
_SENSORS = 5
_LEAST_TRUE = 100  # readings in the gap


@dataclass(frozen=True)
class Truth:
    """Series of groups [C, N], and the deviation of each sensor [C]."""

    sensors: tuple[str, ...]
    groups: tuple[Group, ...]
    deviation: Doubles


def read(folder: Path, part: DataPart) -> Truth:
    """Read a part of a data set."""
    source = read_source(folder / part.file, missing=part.missing)
    found = gridded(source.cells, source.cell, source.time_ms, source.value, step_of([np.unique(source.time_ms)]))
    steps = slice(part.first, part.first + part.steps)
    out = tuple(
        Group(
            each.group,
            each.step_ms * (each.first + np.arange(each.steps, dtype=np.int64)[steps]),
            np.where(each.observed, each.values, np.nan)[:, steps],
        )
        for each in found.groups[: part.groups]
    )
    deviation = np.nanstd(np.concatenate([each.values for each in out], axis=1), axis=1)
    return Truth(found.sensors, out, np.where(deviation > 0, deviation, 1.0))


@dataclass(frozen=True)
class SilentGap:
    """One silent sensor: errors in deviations of the sensor; NaN where nothing is filled, or expected."""

    filled: float  # share of the gap
    error: float
    expected: float
    mean_error: float  # error of the sensor's mean
    held: float  # share of the truth in the band


def measure(truth: Truth) -> list[SilentGap]:
    """Silence sensors of the first group, one at a time, and fill."""
    found = []
    first = truth.groups[0]
    for sensor in range(min(_SENSORS, len(truth.sensors))):
        for start, end in _SILENCES:
            values = first.values.copy()
            values[sensor, start:end] = np.nan
            groups = [Group(first.name, first.times_ms, values), *truth.groups[1:]]
            result = fill_groups(groups, sensors=truth.sensors)
            cells = ~np.isnan(first.values[sensor]) & np.isnan(values[sensor])
            if cells.sum() < _LEAST_TRUE:
                continue
            name = truth.sensors[sensor]
            expected = result.long_gap_error.get(name, (np.nan, np.nan))[0]
            done, true = result.groups[0], first.values[sensor, cells]
            value, lower, upper = (each[sensor, cells] for each in (done.values, done.lower, done.upper))
            known, unit = np.isfinite(value), truth.deviation[sensor]
            held = (lower <= true) & (true <= upper)
            found.append(
                SilentGap(
                    float(known.mean()),
                    float(np.abs(value - true)[known].mean() / unit),
                    expected / unit,
                    float(np.abs(np.nanmean(values[sensor]) - true)[known].mean() / unit),
                    float(held[known].mean()),
                )
            )
    return found


def blocks(truth: Truth, length: int, together: bool) -> dict[str, Any]:
    """Figures of blocks that are hidden in the first sensors of the first group."""
    first, sensors = truth.groups[0], truth.sensors[:_SENSORS]
    known, steps = first.values[:_SENSORS], first.values.shape[1]
    hide = np.zeros(known.shape, np.bool_)
    for sensor in range(len(sensors)):
        for block in range(_BLOCKS[length]):
            apart = 0.0 if together else 0.5 * sensor / len(sensors)
            start = int((block + 0.3 + apart) * steps / _BLOCKS[length])
            hide[sensor, start : start + length] = True
    values = np.where(hide, np.nan, known)
    rest = [replace(each, values=each.values[:_SENSORS]) for each in truth.groups[1:]]
    groups = [Group(first.name, first.times_ms, values), *rest]
    done = fill_groups(groups, sensors=sensors, max_gap=2 * length).groups[0]
    line, last = interpolation(values, ~np.isnan(values)), last_value(values, ~np.isnan(values))
    ratios, jumps, held = [], [], []
    for sensor in range(len(sensors)):
        cells = hide[sensor] & ~np.isnan(known[sensor])
        errors = [np.nanmean(np.abs(each[sensor] - known[sensor])[cells]) for each in (done.values, line, last)]
        ratios.append(errors[0] / min(errors[1:]))
        beside = hide[sensor, 1:] | hide[sensor, :-1]
        own = np.nanmax(np.abs(np.diff(values[sensor])))
        jumps.append(np.nanmax(np.abs(np.diff(done.values[sensor]))[beside]) / own)
        inside = (done.lower[sensor] <= known[sensor]) & (known[sensor] <= done.upper[sensor])
        held.append(inside[cells].mean())
    return {
        "ratio": round(float(np.exp(np.log(ratios).mean())), 3),
        "worst": round(float(max(ratios)), 3),
        "jump": round(float(max(jumps)), 2),
        "held": round(float(np.mean(held)), 3),
    }


def summary(gaps: list[SilentGap]) -> dict[str, Any]:
    """Figures of the gaps that are mostly filled."""
    filled = [gap for gap in gaps if gap.filled > 0.5]
    ratios = np.array([gap.error / gap.expected for gap in filled])
    return {
        "gaps": len(gaps),
        "filled": len(filled),
        "error": round(float(np.mean([gap.error for gap in filled])), 3),
        "mean_error": round(float(np.mean([gap.mean_error for gap in filled])), 3),
        "true_to_expected_p50": round(float(np.median(ratios)), 2),
        "true_to_expected_p90": round(float(np.quantile(ratios, 0.9)), 2),
        "held": round(float(np.mean([gap.held for gap in filled])), 3),
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table and keep a line for each set."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.long_gaps",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--blocks", nargs="*", metavar="SET", help="hide blocks, of these sets or of all")
    asked = parser.parse_args(arguments).blocks
    data = data_sets.folder(parser)
    command = "python -m benchmarks.long_gaps"
    if asked is not None:
        command += " --blocks"
        table = Table("", "steps", "silent", "ratio", "worst", "jump", "held", title=command)
        for part in (*_PARTS, _SECOND):
            for length, together in product(_BLOCKS if not asked or part.name in asked else (), (False, True)):
                whose = {"set": part.name, "steps": length, "silent": "all" if together else "one"}
                row = whose | blocks(read(data, part), length, together)
                machine.append("long_gaps", machine.describe(command) | row)
                table.add_row(*(f"{each}" for each in row.values()))
        Console().print(table)
        return 0
    table = Table("", "gaps", "filled", "error", "of the mean", "true to expected, p50", "p90", "held", title=command)
    for part in _PARTS:
        found = summary(measure(read(data, part)))
        machine.append("long_gaps", machine.describe(command) | {"set": part.name} | found)
        table.add_row(part.name, *(f"{found[name]}" for name in found))
    Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
