"""The closed form's cost: seconds of a fit, and windows per second by sensors and share missing.

    python -m benchmarks.gaussian --sensors 8 21 100
    python -m benchmarks.gaussian --model model_repo/plant-pump

Simulated series follow three slow factors, with noise. Windows have 96 steps. What counts is the CPU time of one
thread, in the fastest of some rounds. `--quick` takes fewer rows and rounds.

With `--model`, a form that exists fills windows of the simulated plant, whose sensors it must have. Their holes are
those of the demo (single readings, outages of sensors and of groups); each has one at one of the `LAGS` that the stream
asks for: the newest step, and that of the final values. On a machine that does other work too, compare runs that follow
each other: times of the same code differ twofold there.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is imported: one core

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from glaim_stream.feed import Source, hide
from glaim_stream.feed.plant import Plant, simulate
from glaim_stream.form import ClosedForm, Fitted, fit

SHARES = (0.02, 0.05, 0.3)
MODEL_SHARES, LAGS = (0.05, 0.14, 0.3), (0, 8)
_PLANT_DAYS, _PLANT_GROUPS, _MODEL_WINDOWS = 1.0, 40, 256
STEPS, STEP_MS = 96, 60_000
_ROWS, _QUICK_ROWS = 15_200, 2_000  # 15,200 rows give 12,000 training windows


def simulated(sensors: int, rows: int) -> NDArray[np.float64]:
    """Values [1, C, N]."""
    rng = np.random.default_rng(1)
    factors = np.zeros((3, rows))
    pushes = 0.25 * rng.normal(size=factors.shape)
    for step in range(1, rows):
        factors[:, step] = 0.97 * factors[:, step - 1] + pushes[:, step]
    values = rng.normal(size=(sensors, 3)) @ factors + 0.2 * rng.normal(size=(sensors, rows))
    return values[None]


def fitted(values: NDArray[np.float64]) -> tuple[Fitted, float]:
    """The fit and its CPU seconds."""
    start = time.process_time()
    names = [str(place) for place in range(values.shape[1])]
    found = fit(values, np.isfinite(values), start_ms=0, step_ms=STEP_MS, sensors=names, steps=STEPS)
    return found, time.process_time() - start


def windows_per_s(
    form: ClosedForm,
    values: NDArray[np.float64],
    observed: NDArray[np.bool_],
    rounds: int,
    newest: int | None = None,
    lags: tuple[int, ...] | None = None,
) -> float:
    """Filled windows per second of CPU time, in the fastest round; with `lags`, these steps alone."""
    asked = None
    if lags is not None:
        newest = max(lags) + 1
        asked = np.isin(np.arange(newest)[::-1], lags)
    end_ms = np.zeros(len(values), np.int64)
    fastest = np.inf
    for _ in range(rounds):
        start = time.process_time()
        form.fill(values, observed, end_ms, newest=newest, asked=asked)
        fastest = min(fastest, time.process_time() - start)
    return len(values) / fastest


def measured(sensors: int, rows: int, rounds: int) -> dict[str, object]:
    """The line of one number of sensors."""
    series = simulated(sensors, rows)
    found, fit_s = fitted(series)
    count = max(50, 8_000 // sensors)
    rng = np.random.default_rng(2)
    ends = rng.integers(STEPS, rows, count)
    values = np.stack([series[0, :, end - STEPS : end] for end in ends])
    drawn = rng.random(values.shape)
    silent = np.ones(values.shape, np.bool_)
    silent[:, 0] = False
    one = drawn >= SHARES[1]
    one[:, 0, -1] = False
    form = found.form
    return {
        "sensors": sensors,
        "span": form.span,
        "variants": len(form.variants),
        "fit_s": round(fit_s, 2),
        "training_windows": found.report.training_windows,
        "windows_per_s": {str(share): round(windows_per_s(form, values, drawn >= share, rounds)) for share in SHARES},
        "newest_step_windows_per_s": round(windows_per_s(form, values, one, rounds, newest=1)),
        "silent_sensor_ms": round(1000 / windows_per_s(form, values, silent, rounds), 3),
        "silent_sensor_newest_step_ms": round(1000 / windows_per_s(form, values, silent, rounds, newest=1), 3),
    }


def of_model(folder: Path, rounds: int) -> dict[str, object]:
    """The line of a form that exists."""
    form = ClosedForm.load(folder)
    plant = simulate(_PLANT_DAYS, groups=_PLANT_GROUPS, seed=9)
    if plant.sensor_ids != form.sensors:
        raise SystemExit(f"expected a form with the sensors {plant.sensor_ids}, found {form.sensors} in {folder}")
    stream: dict[str, int] = {}
    whole: dict[str, int] = {}
    for share in MODEL_SHARES:
        values, observed = windows_with_outages(plant, share, form.steps)
        stream[str(share)] = round(windows_per_s(form, values, observed, rounds, lags=LAGS))
        whole[str(share)] = round(windows_per_s(form, values, observed, rounds))
    return {
        "model": folder.name,
        "variants": len(form.variants),
        "lags": list(LAGS),
        "stream_windows_per_s": stream,
        "windows_per_s": whole,
    }


def windows_with_outages(plant: Plant, share: float, steps: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Values and observed cells [n, C, T] of windows that have a hole at one of the lags."""
    groups, sensors, length = plant.values.shape
    cells = [(group, sensor) for group in plant.groups for sensor in plant.sensor_ids]
    place = np.repeat(np.arange(len(cells), dtype=np.int32)[None], length, axis=0).ravel()
    values = plant.values.reshape(-1, length).T.ravel()  # in order of time
    source = Source(cells, place, np.repeat(plant.times_ms, len(cells)), values)
    hidden = hide(source, share, seed=3).mask.reshape(length, groups, sensors)
    observed = np.moveaxis(~hidden, 0, 2)
    rng = np.random.default_rng(4)
    chosen: list[tuple[int, int]] = []
    while len(chosen) < _MODEL_WINDOWS:
        group, end = int(rng.integers(groups)), int(rng.integers(steps, length))
        if not observed[group, :, [end - 1 - lag for lag in LAGS]].all():
            chosen.append((group, end))
    parts = [(group, slice(None), slice(end - steps, end)) for group, end in chosen]
    return np.stack([plant.values[at] for at in parts]).astype(np.float64), np.stack([observed[at] for at in parts])


def main(arguments: list[str] | None = None) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gaussian", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sensors", type=int, nargs="+", default=[8, 21], help="numbers of sensors (default: 8 21)")
    parser.add_argument("--model", type=Path, help="folder of a form with the plant's sensors, instead of fits")
    parser.add_argument("--rounds", type=int, default=5, help="rounds; the fastest counts (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="2,000 rows and two rounds")
    given = parser.parse_args(arguments)
    rows, rounds = (_QUICK_ROWS, 2) if given.quick else (_ROWS, given.rounds)
    if given.model is not None:
        lines = [of_model(given.model, rounds)]
        command = f"python -m benchmarks.gaussian --model {given.model}"
        about = {"steps": STEPS}
    else:
        lines = [measured(sensors, rows, rounds) for sensors in given.sensors]
        command = f"python -m benchmarks.gaussian --sensors {' '.join(map(str, given.sensors))}"
        about = {"steps": STEPS, "rows": rows}
    command += " --quick" if given.quick else f" --rounds {rounds}"
    machine.append("gaussian", machine.describe(command) | about | {"measured": lines})
    table = Table(*lines[0], title=command)
    for line in lines:
        table.add_row(*map(str, line.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
