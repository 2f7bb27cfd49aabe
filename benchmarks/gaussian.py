"""The closed form's cost: seconds of a fit, and windows per second by sensors and share missing.

    python -m benchmarks.gaussian --sensors 8 21 100

Simulated series follow three slow factors, with noise. Windows have 96 steps. What counts is the CPU time of one
thread, in the fastest of some rounds. `--quick` takes fewer rows and rounds.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is imported: one core

import argparse
import time

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from glaim_stream.imputers.gaussian.fit import Fitted, fit
from glaim_stream.imputers.gaussian.form import ClosedForm

SHARES = (0.02, 0.05, 0.3)
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
    form: ClosedForm, values: NDArray[np.float64], observed: NDArray[np.bool_], rounds: int, newest: int | None = None
) -> float:
    """Filled windows per second of CPU time, in the fastest round."""
    end_ms = np.zeros(len(values), np.int64)
    fastest = np.inf
    for _ in range(rounds):
        start = time.process_time()
        form.fill(values, observed, end_ms, newest=newest)
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


def main(arguments: list[str] | None = None) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gaussian", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sensors", type=int, nargs="+", default=[8, 21], help="numbers of sensors (default: 8 21)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds; the fastest counts (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="2,000 rows and two rounds")
    given = parser.parse_args(arguments)
    rows, rounds = (_QUICK_ROWS, 2) if given.quick else (_ROWS, given.rounds)
    lines = [measured(sensors, rows, rounds) for sensors in given.sensors]
    command = f"python -m benchmarks.gaussian --sensors {' '.join(map(str, given.sensors))}"
    command += " --quick" if given.quick else f" --rounds {rounds}"
    machine.append("gaussian", machine.describe(command) | {"steps": STEPS, "rows": rows, "measured": lines})
    table = Table(*lines[0], title=command)
    for line in lines:
        table.add_row(*map(str, line.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
