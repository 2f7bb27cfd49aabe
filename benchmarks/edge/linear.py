"""A bound for the newest step of a data set: a linear regression that gets all other values.

    python -m benchmarks.edge.linear training/configs/beijing-air.toml --groups 3

Each sensor is predicted from its last steps, the other sensors up to and with the newest step, and the hour of the day,
by least absolute deviations on the training part, over all groups. It has no other gaps and a single target, so it
shows what an aim such as "30 % under the last value" requires of a data set. It prints the MAE on the test part beside
the last value, standardised, by sensor and on average.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training import config as configuration
from training.data import fit_scale, load, split
from training.errors import exits_with_errors

Doubles = NDArray[np.float64]

OWN_STEPS = 6  # steps of the sensor itself, before the newest one
OTHER_STEPS = 3  # steps of each other sensor, including the newest one
ROUNDS = 12  # rounds of reweighting
_LEAST_RESIDUAL = 1e-3  # standardised; smaller errors get the same weight
_RIDGE = 1e-3  # keeps collinear sensors solvable
_HOUR_MS, _DAY_HOURS = 3_600_000, 24


def features(
    values: NDArray[np.float32], times_ms: NDArray[np.int64], sensor: int, steps: NDArray[np.int64]
) -> Doubles:
    """Return the known values at each of `steps` if `sensor` alone is missing, [n, features]; NaN where unknown.

    Args:
        values: [C, R], standardised.
        times_ms: [R].
        sensor: the missing sensor.
        steps: [n], each at least OWN_STEPS.
    """
    own = [values[sensor, steps - back] for back in range(1, OWN_STEPS + 1)]
    others = [
        values[other, steps - back]
        for other in range(len(values)) if other != sensor
        for back in range(OTHER_STEPS)
    ]  # fmt: skip
    hour = times_ms[steps] // _HOUR_MS % _DAY_HOURS
    hours = np.eye(_DAY_HOURS)[hour]  # their sum is the constant
    return np.column_stack([*own, *others, hours]).astype(np.float64)


def least_absolute(x: Doubles, y: Doubles) -> Doubles:
    """Return the coefficients of least absolute deviations, by iteratively reweighted least squares."""
    weight: Doubles = np.ones(len(y))
    coefficients: Doubles = np.zeros(x.shape[1])
    for _ in range(ROUNDS):
        weighted = x * weight[:, None]
        coefficients = np.linalg.solve(weighted.T @ x + _RIDGE * np.eye(x.shape[1]), weighted.T @ y).astype(np.float64)
        weight = 1 / np.maximum(np.abs(y - x @ coefficients), _LEAST_RESIDUAL)
    return coefficients


def _known(
    values: NDArray[np.float32], times_ms: NDArray[np.int64], sensor: int, steps: NDArray[np.int64]
) -> tuple[Doubles, Doubles]:
    x, y = features(values, times_ms, sensor, steps), values[sensor, steps].astype(np.float64)
    known = np.isfinite(y) & np.isfinite(x).all(axis=1)
    return x[known], y[known]


@exits_with_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 2 after an error message."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.edge.linear",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, help="run configuration with the data, split and standardisation")
    parser.add_argument("--groups", type=int, default=0, help="most groups to test, evenly spread (default 0: all)")
    parser.add_argument(
        "--rows", type=int, default=6000, help="random training steps of each group (default %(default)s)"
    )
    given = parser.parse_args(arguments)
    config = configuration.read(given.config)
    series = load(config.data, configuration.data_path(config.data.file))
    parts = split(series, config.data, config.model.window)
    scale, rng = fit_scale(parts.train), np.random.default_rng(config.train.seed)
    train, test = scale.apply(parts.train.values), scale.apply(parts.test.values)
    tested = np.arange(len(test))
    if 0 < given.groups < len(test):
        tested = np.linspace(0, len(test) - 1, given.groups).round().astype(np.int64)
    errors: list[tuple[float, float]] = []
    print(f"{'sensor':<12}{'linear':>10}{'last value':>12}{'under it':>10}")
    for sensor, name in enumerate(series.sensors):
        pairs = []
        for values in train:
            steps = np.arange(OWN_STEPS, values.shape[1])
            chosen = rng.permutation(steps)[: given.rows]
            pairs.append(_known(values, parts.train.times_ms, sensor, chosen))
        coefficients = least_absolute(*(np.concatenate(each) for each in zip(*pairs, strict=True)))
        linear, last = [], []
        for values in test[tested]:
            x, y = _known(values, parts.test.times_ms, sensor, np.arange(OWN_STEPS, values.shape[1]))
            linear.append(np.abs(x @ coefficients - y))
            last.append(np.abs(x[:, 0] - y))  # the first column is the sensor one step before
        errors.append((float(np.concatenate(linear).mean()), float(np.concatenate(last).mean())))
        print(_line(name, *errors[-1]))
    print(_line("mean", *np.mean(errors, axis=0).tolist()))
    return 0


def _line(name: str, linear: float, last: float) -> str:
    return f"{name:<12}{linear:>10.4f}{last:>12.4f}{1 - linear / last:>10.1%}"


if __name__ == "__main__":
    sys.exit(main())
