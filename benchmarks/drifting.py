"""Streams that drift, with readings withheld: the simulated plant with one change each, and stations of Beijing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deploy.cache import CHECKOUT
from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.feed import Source, hide, read_source
from glaim_stream.feed.plant import SENSORS, simulate

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

DROPPED, TRIPLES, TRIPLE_STEPS = 0.10, 0.0015, 40  # share withheld; rate at which three sensors fall silent; steps
LATE = 1 / 3  # share of the withheld stretches that arrive late
_CATALOGUES = CHECKOUT / "deploy" / "catalogues"


@dataclass(frozen=True)
class DriftingStream:
    """Readings float64 [G, C, T], NaN where there is none; `hidden` are withheld; `jumps` are sudden changes' steps.

    Of the withheld ones `late` arrive after all: those of a stretch together, when it is over.
    """

    name: str
    catalogue: Path
    groups: Sequence[str]
    values: Floats
    hidden: Bools
    late: Bools
    start_ms: int
    jumps: Sequence[int] = ()


Change = Callable[[Floats, NDArray[np.int64], Floats, np.random.Generator], Sequence[int]]


def level_shift(values: Floats, at: NDArray[np.int64], unit: Floats, rng: np.random.Generator) -> Sequence[int]:
    """Shift two sensors of every pump by two deviations, up or down, three times."""
    jumps = [int(len(at) * share) for share in (0.25, 0.5, 0.75)]
    for jump in jumps:
        for sensor in rng.choice(len(unit), 2, replace=False):
            values[:, sensor, jump:] += rng.choice([-2.0, 2.0]) * unit[sensor]
    return jumps


def growing_noise(values: Floats, at: NDArray[np.int64], unit: Floats, rng: np.random.Generator) -> Sequence[int]:
    """Add noise to all sensors that grows from nothing to half a deviation."""
    values += rng.normal(size=values.shape) * 0.5 * unit[:, None] * (at / len(at))
    return ()


def scale_change(values: Floats, at: NDArray[np.int64], unit: Floats, rng: np.random.Generator) -> Sequence[int]:
    """Replace motor and flow meter after a third: their readings then vary by 1.6 and 0.6 times as much."""
    jump = len(at) // 3
    for sensor, factor in ((4, 1.6), (0, 0.6)):
        mean = values[:, sensor].mean(axis=1, keepdims=True)
        values[:, sensor, jump:] = mean + factor * (values[:, sensor, jump:] - mean)
    return (jump,)


def seasonal_drift(values: Floats, at: NDArray[np.int64], unit: Floats, rng: np.random.Generator) -> Sequence[int]:
    """Add a wave of 12 hours to every sensor, with its own phase and an amplitude that grows to one deviation."""
    for sensor in range(len(unit)):
        phase = rng.uniform(0, 2 * np.pi)
        values[:, sensor] += unit[sensor] * (at / len(at)) * np.sin(2 * np.pi * at / 720 + phase)
    return ()


def sensor_drift(values: Floats, at: NDArray[np.int64], unit: Floats, rng: np.random.Generator) -> Sequence[int]:
    """Let one sensor of every pump drift by five deviations after the first quarter."""
    drift = 5.0 * np.clip((at / len(at) - 0.25) / 0.75, 0.0, 1.0)
    for group in range(len(values)):
        sensor = int(rng.integers(len(unit)))
        values[group, sensor] += unit[sensor] * drift
    return ()


def regime_switching(values: Floats, at: NDArray[np.int64], unit: Floats, rng: np.random.Generator) -> Sequence[int]:
    """Alternate calm and rough stretches of 100 to 400 steps; rough ones add noise of 0.4 deviations to all."""
    jumps, step = [], 0
    while (step := step + int(rng.integers(100, 400))) < len(at):
        jumps.append(step)
    for start, end in zip(jumps[::2], [*jumps[1::2], len(at)][: len(jumps[::2])], strict=True):
        values[:, :, start:end] += rng.normal(size=values[:, :, start:end].shape) * 0.4 * unit[:, None]
    return jumps


def replaced_parts(values: Floats, at: NDArray[np.int64], unit: Floats, rng: np.random.Generator) -> Sequence[int]:
    """Development: a new motor, a transmitter that drifts, a room that heats up and cools, a pump that vibrates."""
    share = at / len(at)
    values[:, 4] *= np.where(share > 0.5, 1.5, 1.0)
    values[:, 3] += 6.0 * share
    values[:, 5] += 25.0 * ((at // 300) % 2)
    values[:, 6] += 8.0 * ((share > 0.4) & (share < 0.8))
    return (int(0.5 * len(at)), int(0.4 * len(at)), int(0.8 * len(at)), *range(300, len(at), 300))


def heavy_tails(values: Floats, at: NDArray[np.int64], unit: Floats, rng: np.random.Generator) -> Sequence[int]:
    """Development: noise with heavy tails whose size wanders by a factor of four, the same for all sensors."""
    size = np.exp(np.cumsum(rng.normal(size=len(at)) * 0.05))
    size = np.clip(size / np.median(size), 0.5, 2.0)
    values += rng.standard_t(3, values.shape) * 0.15 * unit[:, None] * size
    return ()


def untouched(values: Floats, at: NDArray[np.int64], unit: Floats, rng: np.random.Generator) -> Sequence[int]:
    """Development: the plant as it was in training."""
    return ()


SCORED: tuple[Change, ...] = (
    level_shift, growing_noise, scale_change, seasonal_drift, sensor_drift, regime_switching
)  # fmt: skip
DEVELOPMENT: tuple[Change, ...] = (untouched, replaced_parts, heavy_tails)


def plant(change: Change, steps: int, groups: int, seed: int) -> DriftingStream:
    """The simulated plant with one change."""
    found = simulate(steps / 1440, groups=groups, seed=seed)
    values = found.values.astype(np.float64)
    unit = values.std(axis=2).mean(axis=0)
    jumps = change(values, np.arange(steps), unit, np.random.default_rng(seed))
    low, high = ([[getattr(sensor, name)] for sensor in SENSORS] for name in ("minimum", "maximum"))
    values = np.clip(values, low, high)
    hidden = gaps(found.groups, found.sensor_ids, values, seed)
    late, start_ms = some_stretches(hidden, seed), int(found.times_ms[0])
    return DriftingStream(
        change.__name__, _CATALOGUES / "plant.yaml", found.groups, values, hidden, late, start_ms, jumps
    )


def beijing(folder: Path, steps: int, groups: int, seed: int, *, before: int = 0) -> DriftingStream:
    """The last hours of some stations, which training has not seen; `before` leaves out that many at the end."""
    catalogue = _CATALOGUES / "beijing.yaml"
    model = read_catalogue(catalogue).models[0]
    source = read_source(folder / "beijing_multisite.parquet")
    names = source.groups[:groups]
    last = int(source.time_ms[-1]) - before * model.step_ms
    start_ms = last - (steps - 1) * model.step_ms
    source = source.between(start_ms, last + 1)
    values = np.full((groups, len(model.sensors), steps), np.nan)
    place = [
        (names.index(group), model.sensor_ids.index(sensor)) if group in names and sensor in model.sensor_ids else None
        for group, sensor in source.cells
    ]
    for code, cell in enumerate(place):
        if cell is not None:
            rows = source.cell == code
            values[*cell, (source.time_ms[rows] - start_ms) // model.step_ms] = source.value[rows]
    name = "beijing" if not before else "beijing_before"
    hidden = gaps(names, model.sensor_ids, values, seed)
    return DriftingStream(name, catalogue, names, values, hidden, some_stretches(hidden, seed), start_ms)


def gaps(groups: Sequence[str], sensors: Sequence[str], values: Floats, seed: int) -> Bools:
    """Withheld cells as `produce --drop` chooses them, and now and then three sensors at once for 40 steps."""
    steps = values.shape[2]
    cells = [(group, sensor) for group in groups for sensor in sensors]
    code = np.tile(np.arange(len(cells), dtype=np.int32), steps)
    source = Source(cells, code, np.repeat(np.arange(steps), len(cells)), np.zeros(len(code)))
    hidden = hide(source, DROPPED, seed=seed).mask.reshape(steps, len(groups), len(sensors)).transpose(1, 2, 0).copy()
    rng = np.random.default_rng([seed, 3])
    for group, step in np.argwhere(rng.random((len(groups), steps)) < TRIPLES).tolist():
        hidden[group, rng.choice(len(sensors), 3, replace=False), step : step + TRIPLE_STEPS] = True
    hidden[:, :, :8] = False
    return hidden & np.isfinite(values)


def some_stretches(hidden: Bools, seed: int) -> Bools:
    """A share `LATE` of the stretches of withheld cells [G, C, T], whole ones."""
    first = hidden & ~np.pad(hidden, ((0, 0), (0, 0), (1, 0)))[:, :, :-1]
    number = first.reshape(-1).cumsum().reshape(hidden.shape)
    chosen = np.random.default_rng([seed, 4]).random(int(number.max()) + 1) < LATE
    late: Bools = hidden & chosen[number]
    return late
