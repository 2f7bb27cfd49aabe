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
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks import data_sets, machine
from benchmarks.gaussian import simulated
from benchmarks.low_rank import Factors
from glaim_stream.imputers.gaussian.candidates import PLAIN, transforms
from glaim_stream.imputers.gaussian.fit import fit
from glaim_stream.imputers.gaussian.form import ClosedForm
from glaim_stream.imputers.gaussian.hiding import hidden_cells
from glaim_stream.imputers.gaussian.kinds import Kind, carried_value
from glaim_stream.imputers.gaussian.moments import Moments
from glaim_stream.imputers.gaussian.relations import Relations
from glaim_stream.imputers.gaussian.search import CONSTANTS, Candidate, Validation, log_error
from glaim_stream.imputers.gaussian.series import Series
from glaim_stream.imputers.gaussian.tiles import span_for
from glaim_stream.imputers.gaussian.variant import Variant
from glaim_stream.imputers.simple import interpolated

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Fill = Callable[[Doubles, Bools, int], Doubles]  # values and observed cells [n, C, T], newest k: means [n, C, k]

STEPS, STEP_MS = 96, 3_600_000
FITTED, SCORED = 0.7, 0.2  # shares of the rows, at the start and at the end
CASES = ("blocks", "single", "silent", "newest")
NEWEST, NEWEST_SHARE = 8, 0.2
CLUSTER = 26  # sensors at most: 2,496 cells
_FACTOR_WINDOWS, _FACTOR_RIDGES = 3_000, (1e-3, 1e-2, 1e-1)
_LEVEL_SPAN = 8  # of the form whose levels and scales the factors take
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


@dataclass(frozen=True)
class Method:
    """A fitted alternative. span: steps that it sees at once; memory: bytes of its arrays."""

    fill: Fill
    span: int
    fit_s: float
    memory: int


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


# Alternatives ---------------------------------------------------------------------------------------------------------


def fitted(values: Doubles, *, plain: bool = True) -> ClosedForm:
    """The product's form of series [C, N]."""
    return fit(
        values[None],
        np.isfinite(values)[None],
        start_ms=0,
        step_ms=STEP_MS,
        sensors=[str(place) for place in range(len(values))],
        steps=STEPS,
        only_numbers=True,
        only_plain=plain,
    ).form


def form_of(
    values: Doubles,
    *,
    span: int | None = None,
    shrinkage: float = CONSTANTS.default_shrinkage,
    distance: float | None = None,
    carried: bool = False,
) -> ClosedForm:
    """A plain form of series [C, N] with given constants, by default those of the product, and its span."""
    sensors, series = len(values), series_of(values)
    steps = span_for(sensors, STEPS) if span is None else span
    if distance is None:
        distance = CONSTANTS.default_distance if span_for(sensors, STEPS) < STEPS else 0.0
    windows = series.windows(steps, CONSTANTS.training_windows)
    candidate = Candidate(
        PLAIN,
        transforms(series, windows, None, np.zeros(sensors, np.bool_))[PLAIN],
        Moments(sensors, steps),
        None,
        STEP_MS,
        shrinkage=shrinkage,
        distance=distance,
    )
    candidate.add(windows)
    beyond = np.full(sensors, np.inf)
    return ClosedForm(
        sensors=tuple(str(place) for place in range(sensors)),
        steps=STEPS,
        step_ms=STEP_MS,
        span=steps,
        variants=(candidate.variant(windows).inverted(),),
        weights=(1.0,),
        kinds=(Kind.NUMBER,) * sensors,
        relations=Relations(np.zeros((0, sensors)), np.zeros(0)),
        phase=None,
        calibration=1.0,
        lowest=-beyond,
        highest=beyond,
        swing=np.nanmax(values, axis=1) - np.nanmin(values, axis=1),
        carried_deviation=np.ones(sensors),
        carried_levels=carried,
    )


def series_of(values: Doubles) -> Series:
    """Series [C, N] of one group."""
    observed = np.isfinite(values)
    return Series(np.where(observed, values, 0.0)[None], observed[None], 0, STEP_MS)


def filled_by(form: ClosedForm) -> Fill:
    """A form's means of the newest steps."""
    return lambda values, observed, newest: (
        form.fill(values, observed, np.zeros(len(values), np.int64), newest=newest).mean
    )


def memory_of(form: ClosedForm) -> int:
    """Bytes of the covariance, which is kept, and of the padded one and its inverse."""
    return sum(3 * each.covariance.nbytes for each in form.variants)


def clusters(values: Doubles, most: int) -> list[NDArray[np.int64]]:
    """Sensors that go together, at most so many in each: halves by the leading component, again and again."""
    complete = np.where(np.isfinite(values), values, np.nanmean(values, axis=1, keepdims=True))
    correlation = np.corrcoef(complete)
    parts, done = [np.arange(len(values))], []
    while parts:
        part = parts.pop()
        if len(part) <= most:
            done.append(np.sort(part))
            continue
        of_part = correlation[np.ix_(part, part)]
        centred = of_part - of_part.mean(axis=0) - of_part.mean(axis=1)[:, None] + of_part.mean()
        order = part[np.argsort(np.linalg.eigh(centred)[1][:, -1])]
        parts += [order[: len(part) // 2], order[len(part) // 2 :]]
    return done


def of_clusters(values: Doubles) -> tuple[Fill, int]:
    """Closed forms of the clusters, and their bytes."""
    places = clusters(values, CLUSTER)
    forms = [form_of(values[part]) for part in places]

    def fill(given: Doubles, observed: Bools, newest: int) -> Doubles:
        out = given[:, :, -newest:].copy()
        for part, form in zip(places, forms, strict=True):
            out[:, part] = filled_by(form)(given[:, part], observed[:, part], newest)
        return out

    return fill, sum(map(memory_of, forms))


def of_factors(values: Doubles, count: int) -> tuple[Fill, int]:
    """K factors, with levels and scales of a plain form; the ridge is chosen on the newest fifth of the rows."""
    series = series_of(values)
    cut = int(0.8 * series.steps)
    base = form_of(values, span=_LEVEL_SPAN)
    plain = base.variants[0]
    validated = series.rows(cut, series.steps).windows(STEPS, CONSTANTS.search_windows)
    validation = Validation(
        validated,
        np.ones((len(validated), len(values))),
        1.0,
        np.ones((len(validated), STEPS), np.bool_),
        np.ones(len(values)),
    )
    candidate = Candidate(plain.name, plain.transform, Moments(1, 1), None, STEP_MS)

    def variant(factors: Factors, ridge: float) -> Variant:
        shape = np.zeros((len(values) * STEPS, 0))  # the covariance is never looked at, but for its length
        out = Variant(plain.name, plain.transform, plain.levels, shape, np.ones(len(values)))
        vars(out)["conditional"] = factors.conditional(CONSTANTS.default_shrinkage, ridge)
        return out

    def factors_of(rows: Series) -> Factors:
        windows = rows.windows(STEPS, _FACTOR_WINDOWS)
        return Factors(plain.transform.forward(windows.values, windows.observed, None)[0], windows.observed, count)

    tried = factors_of(series.rows(0, cut))
    errors = {
        ridge: log_error(validation.errors(variant(tried, ridge), candidate, CONSTANTS.search_windows // 2))
        for ridge in _FACTOR_RIDGES
    }
    chosen = variant(factors_of(series), min(errors, key=lambda ridge: errors[ridge]))
    form = replace(base, span=STEPS, variants=(chosen,))
    return filled_by(form), 8 * chosen.conditional.numbers  # type: ignore[attr-defined]


def interpolate(values: Doubles, observed: Bools, newest: int) -> Doubles:
    """Straight lines between readings."""
    return np.asarray(interpolated(values, observed, newest=newest)[0], np.float64)


def carry(values: Doubles, observed: Bools, newest: int) -> Doubles:
    """Each sensor's last reading, or the first one after the hole."""
    return np.where(observed, values, carried_value(values, observed))[:, :, -newest:]


def method(name: str, values: Doubles) -> Method:
    """Fit an alternative to series [C, N]."""
    start = time.process_time()
    number = int(name.partition("-")[2]) if "-" in name else 0
    forms: dict[str, Callable[[], ClosedForm]] = {
        "product": lambda: fitted(values, plain=False),
        "plain": lambda: fitted(values),
        "defaults": lambda: form_of(values),
        "span": lambda: form_of(values, span=number),
        "lags": lambda: form_of(values, shrinkage=1.0),
        "pairs": lambda: form_of(values, shrinkage=0.0),
        "no distance": lambda: form_of(values, distance=0.0),
        "carried": lambda: form_of(values, carried=True),
    }
    if name in ("interpolation", "last value"):
        return Method(interpolate if name == "interpolation" else carry, STEPS, 0.0, 0)
    if name == "clusters" or name.startswith("factors"):
        fill, memory = of_clusters(values) if name == "clusters" else of_factors(values, number)
        return Method(fill, STEPS, time.process_time() - start, memory)
    form = forms[name.partition("-")[0]]()
    return Method(filled_by(form), form.span, time.process_time() - start, memory_of(form))


# Scores ---------------------------------------------------------------------------------------------------------------


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
