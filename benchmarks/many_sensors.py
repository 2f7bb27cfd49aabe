"""What the closed form of many sensors costs in error and time, beside its alternatives.

    GLAIM_DATA=... python -m benchmarks.many_sensors
    GLAIM_DATA=... python -m benchmarks.many_sensors --sets metr-la --only product factors-8

Each alternative is fitted to the first 70 % of the rows of a data set and fills windows of 96 steps of the last 20 %:

- `product`: the closed form as it ships, but for numbers alone; its fit searches constants, variants and more
- `plain`: its plain variant alone, with the same search
- `defaults`: the plain variant with the constants where the search begins; the following change one thing of it
- `span-N`: the nearest N steps
- `lags`, `pairs`: moments that are averaged by lag (block Toeplitz), or not at all
- `no distance`: the covariances of different sensors as they were estimated
- `carried`: a sensor that is silent in a part of a window takes the last value before it as its level there
- `factors-K`: K factors with all 96 steps (`low_rank.py`)
- `clusters`: closed forms of about 25 sensors that go together, with all 96 steps
- `interpolation`, `last value`

Cells are hidden in four ways: blocks of 1 to 24 steps, at most 30 % of each sensor; single cells, 10 to 30 %; one
sensor, silent for the window; and the newest 1 to 8 steps of a fifth of the sensors. In the last case only the newest 8
steps are filled, as in a stream. Errors are in deviations of the sensor in the first 70 %.

`simulated` are 321 sensors that follow three factors, for the cost: no data set here has so many.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is imported: one core

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
from rich.console import Console
from rich.table import Table

from benchmarks import data_sets, machine
from benchmarks.alternatives import STEPS, Bools, Doubles, Fill, method, series_of
from benchmarks.gaussian import simulated
from glaim_stream.form.hiding import hidden_cells

FITTED, SCORED = 0.7, 0.2  # shares of the rows, at the start and at the end
CASES = ("blocks", "single", "silent", "newest")
NEWEST, NEWEST_SHARE = 8, 0.2
_SIMULATED, _SIMULATED_ROWS = 321, 2_000


@dataclass(frozen=True)
class DataSet:
    """A data set, and the alternatives that are tried on it beside those of every set."""

    file: str
    alternatives: tuple[str, ...]


_WIDE = ("carried", "no distance", "factors-8", "factors-16", "clusters")
SETS = {
    "weather": DataSet("weather.csv", ("span-24", "span-48", "factors-4", "factors-8")),
    "beijing-132": DataSet("beijing_multisite.parquet", ("span-9", "span-28", *_WIDE)),
    "electricity-slice": DataSet("electricity_slice1000.parquet", ("span-8", "span-18", *_WIDE)),
    "metr-la-week": DataSet("metr_la_week_tgcn.parquet", ("span-8", "span-18", *_WIDE)),
    "simulated": DataSet("", ("span-4", "span-12", *_WIDE)),
}
OF_EVERY_SET = ("product", "plain", "defaults", "lags", "pairs", "interpolation", "last value")


def read(folder: Path, name: str) -> Doubles:
    """Return the sensors' series [C, N] of a set, NaN where there is no reading."""
    if name == "simulated":
        alike: Doubles = simulated(_SIMULATED, _SIMULATED_ROWS)[0]
        return alike
    path = folder / SETS[name].file
    if path.suffix == ".csv":
        options = pa_csv.ReadOptions(encoding="latin-1")
        table = pa_csv.read_csv(path, read_options=options)
    else:
        table = pa_parquet.read_table(path)
    numbers = [
        each.to_numpy() for each in table.columns if pa.types.is_floating(each.type) or pa.types.is_integer(each.type)
    ]
    values: Doubles = np.stack(numbers).astype(np.float64)
    values[values == -9999] = np.nan  # Weather's mark of a dropout
    return values


def standardised(values: Doubles) -> Doubles:
    """The series [C, N] in deviations of the rows that are fitted to, around their mean."""
    known = values[:, : int(FITTED * values.shape[1])]
    deviation = np.nanstd(known, axis=1, keepdims=True)
    out: Doubles = (values - np.nanmean(known, axis=1, keepdims=True)) / np.where(deviation > 0, deviation, 1.0)
    return out


def windows_to_fill(values: Doubles, most: int) -> tuple[Doubles, Bools]:
    """Windows [n, C, T] at even distances in the last rows, and their readings."""
    series = series_of(values)
    windows = series.rows(int((1 - SCORED) * series.steps), series.steps).windows(STEPS, 100 * most)
    chosen = np.linspace(0, len(windows) - 1, min(most, len(windows))).astype(int)
    return windows.values[chosen], windows.observed[chosen]


def hidden(case: str, observed: Bools) -> Bools:
    """Which readings of windows [n, C, T] a case hides."""
    rng = np.random.default_rng([3, CASES.index(case)])
    if case == "blocks":
        return hidden_cells("blocks", observed)
    count, sensors, steps = observed.shape
    if case == "single":
        chosen = rng.random(observed.shape) < rng.uniform(0.1, 0.3, (count, 1, 1))
    elif case == "silent":
        chosen = (np.arange(sensors) == rng.permutation(np.resize(np.arange(sensors), count))[:, None])[:, :, None]
    else:
        newest = np.arange(steps) >= steps - rng.integers(1, NEWEST + 1, (count, 1, 1))
        chosen = newest & (rng.random((count, sensors, 1)) < NEWEST_SHARE)
    return np.asarray(chosen & observed, np.bool_)


def scores(fill: Fill, values: Doubles, observed: Bools) -> dict[str, dict[str, float]]:
    """Errors by case, and milliseconds of CPU time a window; the first window, which inverts matrices, is not timed."""
    out = {}
    for case in CASES:
        holes = hidden(case, observed)
        newest = NEWEST if case == "newest" else STEPS
        fill(values[:1], observed[:1] & ~holes[:1], newest)
        start = time.process_time()
        found = fill(values, observed & ~holes, newest)
        spent = time.process_time() - start
        cells = holes[:, :, -newest:]
        error = np.nan_to_num(found - values[:, :, -newest:])[cells]  # a level that is declined: the mean, 0
        declined = np.isnan(found[cells])
        error[declined] = -values[:, :, -newest:][cells][declined]
        out[case] = {
            "mse": round(float(np.mean(error**2)), 4),
            "mae": round(float(np.mean(np.abs(error))), 4),
            "ms": round(1000 * spent / len(values), 2),
        }
    return out


def main(arguments: list[str] | None = None) -> int:
    """Measure, keep a line of each alternative and print a table for each set."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.many_sensors",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS), help="all by default")
    parser.add_argument("--only", nargs="+", default=[], help="alternatives, all by default")
    parser.add_argument("--windows", type=int, default=64, help="of each set (default: %(default)s)")
    given = parser.parse_args(arguments)
    data = Path() if given.sets == ["simulated"] else data_sets.folder(parser)
    for name in given.sets:
        values = standardised(read(data, name))
        training = values[:, : int(FITTED * values.shape[1])]
        windows, observed = windows_to_fill(values, given.windows)
        command = f"python -m benchmarks.many_sensors --sets {name} --windows {given.windows}"
        table = Table("", "span", *CASES, "ms", "newest, ms", "fit, s", "MB", title=f"{name}: {len(values)} sensors")
        for alternative in given.only or (*OF_EVERY_SET[:-2], *SETS[name].alternatives, *OF_EVERY_SET[-2:]):
            tried = method(alternative, training)
            found = scores(tried.fill, windows, observed)
            line = {
                "set": name,
                "sensors": len(values),
                "rows": training.shape[1],
                "windows": len(windows),
                "method": alternative,
                "span": tried.span,
                "fit_s": round(tried.fit_s, 1),
                "mb": round(tried.memory / 1e6, 1),
                "cases": found,
            }
            machine.append("many_sensors", machine.describe(command) | line)
            table.add_row(
                alternative,
                str(tried.span),
                *(f"{found[case]['mse']:.3f} / {found[case]['mae']:.3f}" for case in CASES),
                *(f"{found[case]['ms']:.1f}" for case in ("blocks", "newest")),
                f"{tried.fit_s:.0f}",
                f"{tried.memory / 1e6:.0f}",
            )
        Console(width=160).print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
