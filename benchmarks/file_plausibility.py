"""The error of filled files with spikes among the readings and without, plausibility on and off.

    GLAIM_DATA=... python -m benchmarks.file_plausibility

Of ETTh1, Weather and three stations of Beijing's air some thousand steps are filled four times: as they are, and with
spikes of 10 to 10^6 standard deviations (logarithms uniform, either sign) in 1 % of the readings; with plausibility and
without. The same 8 % of the readings are hidden in each pass. Errors are mean absolute errors in standard deviations.
The aim: with spikes at most 5 % more error than without, and on the data as they are no more error with plausibility
than without it.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks import data_sets, machine
from benchmarks.plausibility import MOST_MORE, draw_spikes
from glaim_stream.feed.sources import read_source
from glaim_stream.health.gridded import gridded
from glaim_stream.tables.fill import Group, fill_groups
from glaim_stream.tables.grid import step_of

Doubles = NDArray[np.float64]

_HIDDEN = 0.08
_NO_WORSE = 1.005  # error on the data as they are, with plausibility against without


@dataclass(frozen=True)
class Part:
    """A part of a data set, in which its sensors are in use."""

    name: str
    file: str
    missing: tuple[str, ...]
    groups: int
    first: int
    steps: int


_PARTS = (
    Part("ETTh1", "ETTh1.csv", (), 1, 0, 4000),
    Part("weather", "weather.csv", ("-9999",), 1, 20_000, 4000),
    Part("beijing-air", "beijing_multisite.parquet", (), 3, 20_000, 3000),
)


@dataclass(frozen=True)
class Truth:
    """Series of groups [C, N], and the deviation of each sensor [C]."""

    sensors: tuple[str, ...]
    groups: tuple[Group, ...]
    deviation: Doubles


def read(folder: Path, part: Part) -> Truth:
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


def measure(truth: Truth, seed: int) -> dict[str, Any]:
    """Errors of all passes, and how many readings were doubted."""
    random = np.random.default_rng(seed)
    hidden = [(random.random(each.values.shape) < _HIDDEN) & ~np.isnan(each.values) for each in truth.groups]
    clean, spiked, spikes = [], [], []
    for group, cells in zip(truth.groups, hidden, strict=True):
        known = np.where(cells, np.nan, group.values)
        chosen, jump = draw_spikes(random, known.shape)
        spikes.append(chosen & ~np.isnan(known))
        clean.append(Group(group.name, group.times_ms, known))
        wrong = known + np.where(chosen, jump, 0.0) * truth.deviation[:, None]
        spiked.append(Group(group.name, group.times_ms, wrong))
    result: dict[str, Any] = {
        "readings": int(sum((~np.isnan(each.values)).sum() for each in clean)),
        "hidden": int(sum(each.sum() for each in hidden)),
        "spikes": int(sum(each.sum() for each in spikes)),
    }
    for name, groups in (("clean", clean), ("spiked", spiked)):
        for plausibility in (True, False):
            filled = fill_groups(groups, sensors=truth.sensors, plausibility=plausibility).groups
            errors = np.concatenate(
                [
                    (np.abs(done.values - each.values) / truth.deviation[:, None])[cells]
                    for done, each, cells in zip(filled, truth.groups, hidden, strict=True)
                ]
            )
            result[f"{name}_{'on' if plausibility else 'off'}"] = round(float(np.nanmean(errors)), 5)
            if plausibility:
                result[f"doubted_{name}"] = int(sum(each.doubted.sum() for each in filled))
                found = sum(int((done.doubted & each).sum()) for done, each in zip(filled, spikes, strict=True))
        if name == "spiked":
            result["spikes_found"] = found
    return result


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table and keep a line for each set; return 1 where the aim is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.file_plausibility",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1, help="of hidden readings and spikes (default: %(default)s)")
    given = parser.parse_args(arguments)
    data = data_sets.folder(parser)
    command = f"python -m benchmarks.file_plausibility --seed {given.seed}"
    table = Table("", "as they are, off", "on", "with spikes, off", "on", "more", "found", "doubted", title=command)
    missed = False
    for part in _PARTS:
        found = measure(read(data, part), given.seed)
        machine.append("file_plausibility", machine.describe(command) | {"set": part.name, "seed": given.seed} | found)
        more = found["spiked_on"] / found["clean_on"] - 1
        table.add_row(
            part.name, f"{found['clean_off']:.4f}", f"{found['clean_on']:.4f}", f"{found['spiked_off']:,.0f}",
            f"{found['spiked_on']:.4f}", f"{more:+.1%}", f"{found['spikes_found']:,} of {found['spikes']:,}",
            f"{found['doubted_clean']:,} of {found['readings']:,}",
        )  # fmt: skip
        missed |= more > MOST_MORE or found["clean_on"] > _NO_WORSE * found["clean_off"]
    Console().print(table)
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
