"""Example windows, chosen by a rule: 10th percentile, median, 90th percentile, and the worst.

A case is one sensor in one window. Cases are ranked by the model's mean absolute error over the hidden cells of that
sensor in that window, in deviations, so the rule depends on the error alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.contract import ResidualQuantiles
from training.data import Bools, Floats, GroupSeries, Scale, WindowBatch, WindowSet, block_cells, hide
from training.evaluate import BATCH, Fill
from training.report.gaps import find_gaps
from training.report.intervals import interval

RANKS = (
    ("10th percentile of the error", 0.1),
    ("median error", 0.5),
    ("90th percentile of the error", 0.9),
    ("worst", 1.0),
)
FEWEST = 3  # with fewer hidden cells the error of a case is mostly random
MOST_SENSORS = 12
BLOCK_RATE = 0.3


@dataclass(frozen=True)
class ExampleCase:
    """One sensor in one window, and the model's error on its hidden cells."""

    error: float
    window: int  # index into the window set
    sensor: int
    batch: int  # number of its batch in the pass, and its row there
    row: int


@dataclass(frozen=True)
class Pass:
    """All chosen windows, filled by model and interpolation."""

    batches: list[tuple[WindowBatch, Floats, Floats]]
    cases: list[ExampleCase]


def examples(
    windows: WindowSet, model: Fill, interpolation: Fill, part: GroupSeries, scale: Scale, quantiles: ResidualQuantiles,
    *, most: int, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """Return the chosen cases as plain values in sensor units.

    Args:
        windows: Standardised test windows of `part`.
        model: Fills the windows.
        interpolation: Fills the windows too.
        part: Test part: times, names, units.
        scale: Scale of the training part.
        quantiles: Residual quantiles for the interval of each hidden cell.
        most: Windows to choose from, evenly spread over groups and time.
        seed: Seed of the gaps.

    Returns:
        "blocks" and "edge": a case of each rank; "sensors": the median case of each sensor, from blocks.
    """
    tail = max(FEWEST, windows.window // 8)

    def blocks(rng: np.random.Generator, _: int, known: Bools) -> Bools:
        return block_cells(rng, known, BLOCK_RATE)

    def newest(_: np.random.Generator, first: int, known: Bools) -> Bools:
        hidden = np.zeros_like(known)
        for index in range(known.shape[0]):
            hidden[index, (first + index) % known.shape[1], -tail:] = True
        return hidden

    result: dict[str, Any] = {"tail_steps": tail, "block_rate": BLOCK_RATE, "windows": len(windows.spread(most))}
    for name, pattern in (("blocks", blocks), ("edge", newest)):
        done = _fill(windows, model, interpolation, pattern, most, seed)

        def drawn(case: ExampleCase, rule: str, done: Pass = done) -> dict[str, Any]:
            return {"rule": rule, **_draw(done, case, windows, part, scale, quantiles)}

        ranked = sorted(done.cases, key=lambda case: case.error)
        result[name] = [drawn(_at(ranked, share), rule) for rule, share in RANKS] if ranked else []
        result[f"{name}_cases"] = len(ranked)
        if name == "blocks":
            own = [[case for case in ranked if case.sensor == sensor] for sensor in range(len(part.sensors))]
            medians = [_at(cases, 0.5) for cases in own if cases]
            result["sensors"] = [drawn(case, "median error of this sensor") for case in _thin(medians)]
    return result


def _at(ranked: Sequence[ExampleCase], share: float) -> ExampleCase:
    return ranked[round(share * (len(ranked) - 1))]


def _thin(medians: list[ExampleCase]) -> list[ExampleCase]:
    """Return all sensors if they are few, else an even choice from the best to the worst."""
    if len(medians) <= MOST_SENSORS:
        return medians
    ranked = sorted(medians, key=lambda case: case.error)
    return [ranked[round(index * (len(ranked) - 1) / (MOST_SENSORS - 1))] for index in range(MOST_SENSORS)]


def _fill(windows: WindowSet, model: Fill, interpolation: Fill, pattern: Any, most: int, seed: int) -> Pass:
    chosen = windows.spread(most)
    done = Pass([], [])
    for start in range(0, len(chosen), BATCH):
        index = chosen[start : start + BATCH]
        values = windows.take(index)
        rng = np.random.default_rng([seed, start])
        batch = hide(values, pattern(rng, start, np.isfinite(values)))
        filled, straight = (fill(batch.values, batch.observed) for fill in (model, interpolation))
        counts = batch.hidden.sum(axis=-1)
        error = np.where(batch.hidden, np.abs(filled - batch.truth), 0).sum(axis=-1) / np.maximum(counts, 1)
        done.cases.extend(
            ExampleCase(float(error[row, sensor]), int(index[row]), int(sensor), len(done.batches), int(row))
            for row, sensor in zip(*np.nonzero(counts >= FEWEST), strict=True)
        )
        done.batches.append((batch, filled, straight))
    return done


def _draw(
    done: Pass, case: ExampleCase, windows: WindowSet, part: GroupSeries, scale: Scale, quantiles: ResidualQuantiles
) -> dict[str, Any]:
    batch, filled, straight = done.batches[case.batch]
    place = (case.row, case.sensor)
    mean, std = float(scale.mean[case.sensor]), float(scale.std[case.sensor])
    observed, hidden = batch.observed[place], batch.hidden[place]
    gaps = find_gaps(observed)
    steps = observed.size
    lower, upper = interval(
        quantiles, scale.std, ~gaps.before_observation, gaps.age, np.full(steps, case.sensor, np.int64)
    )
    in_units = filled[place].astype(np.float64) * std + mean
    missing = ~observed
    banded = missing & gaps.after_observation
    first = int(windows.starts[case.window])
    absolute = np.abs(filled[place] - batch.truth[place])[hidden]
    rival = np.abs(straight[place] - batch.truth[place])[hidden]
    return {
        "group": part.groups[int(windows.groups[case.window])],
        "sensor": part.sensors[case.sensor],
        "unit": part.units[case.sensor],
        "first_ms": int(part.times_ms[first]),
        "last_ms": int(part.times_ms[first + steps - 1]),
        "hidden_cells": int(hidden.sum()),
        "mae": float(absolute.mean()),
        "mae_unit": float(absolute.mean()) * std,
        "interpolation_mae_unit": float(rival.mean()) * std,
        "observed": _values(batch.truth[place].astype(np.float64) * std + mean, observed),
        "hidden": _values(batch.truth[place].astype(np.float64) * std + mean, hidden),
        "model": _values(in_units, missing),
        "interpolation": _values(straight[place].astype(np.float64) * std + mean, missing),
        "lower": _values(in_units + lower * std, banded),
        "upper": _values(in_units + upper * std, banded),
    }


def _values(values: NDArray[np.float64], where: Bools) -> list[float | None]:
    return [float(value) if here else None for value, here in zip(values, where, strict=True)]
