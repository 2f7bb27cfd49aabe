"""The simulated plant of the demo: pump groups whose sensors obey the same physics, minute by minute.

Every group is one pump with its tank, valve and motor, measured by eight sensors. Demand drives the speed; the pump
curve meets the system curve at the flow; head, suction, motor current, vibration and bearing temperature follow:

    demand -> speed -> flow <-> head -> discharge pressure
                        |        |
        tank level <----+        +----> motor current -> bearing temperature (lag 45 min)
            |           +----> vibration (off the best point, near resonance, near cavitation)
            +-> suction pressure

So a silent sensor can be inferred from the others, which is an imputer's task. The difficulties are realistic: fast
demand noise that no interpolation can follow, valve steps, refills of the tank, slow lags, sensor noise.

Pumps differ (size, curve, resonance, wear), and a pump is the same for every seed: the seed draws the days, not the
machines. A longer simulation of the same seed and groups begins with the shorter one.

    python -m glaim_stream.feed.plant --out plant.parquet --days 14 --seed 1
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

__all__ = ["SENSORS", "STEPS_PER_DAY", "STEP_MS", "Plant", "simulate", "write_parquet"]

STEP_MS = 60_000
STEPS_PER_DAY = 1440
START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
_MACHINES_SEED = 7_2026  # draws the pumps; the `seed` argument draws only what happens to them


@dataclass(frozen=True)
class PlantSensor:
    """A sensor of every pump: id, unit, limits of its readings, and noise (1 sigma, same unit)."""

    id: str
    unit: str
    minimum: float
    maximum: float
    noise: float


SENSORS: tuple[PlantSensor, ...] = (
    PlantSensor("flow", "m3/h", 0.0, 400.0, 1.0),
    PlantSensor("speed", "rpm", 0.0, 3200.0, 4.0),
    PlantSensor("suction_pressure", "bar", 0.0, 6.0, 0.008),
    PlantSensor("discharge_pressure", "bar", 0.0, 25.0, 0.03),
    PlantSensor("motor_current", "A", 0.0, 300.0, 0.7),
    PlantSensor("bearing_temperature", "degC", -20.0, 150.0, 0.15),
    PlantSensor("vibration", "mm/s", 0.0, 30.0, 0.04),
    PlantSensor("tank_level", "%", 0.0, 100.0, 0.2),
)


@dataclass(frozen=True)
class Plant:
    """Readings of the whole plant: `values` float32 [G, C, T] on `times_ms` int64 [T] (UTC), no gaps."""

    groups: tuple[str, ...]
    sensors: tuple[PlantSensor, ...]
    times_ms: NDArray[np.int64]
    values: NDArray[np.float32]

    @property
    def sensor_ids(self) -> tuple[str, ...]:
        """The sensors in the order of the rows."""
        return tuple(sensor.id for sensor in self.sensors)


@dataclass(frozen=True)
class _Machines:
    """Parameters of the pumps; every field float64 [G]."""

    rated_speed: Floats  # rpm
    head_0: Floats  # m, at rated speed without flow
    curve: Floats  # m / (m3/h)^2, how the pump's head falls with flow
    static_head: Floats  # m
    system: Floats  # m / (m3/h)^2, the pipe's resistance with the valve open
    best_flow: Floats  # m3/h, best efficiency point at rated speed
    efficiency: Floats
    idle_current: Floats  # A
    resonance: Floats  # rpm
    wear: Floats  # mm/s of vibration at the best point
    heating: Floats  # degC at rated current
    tank: Floats  # m3
    tank_height: Floats  # m
    suction_loss: Floats  # bar / (m3/h)^2
    supply: Floats  # m3/h into the tank while it fills
    own_share: Floats  # share of the demand that is this pump's and not the plant's


def _machines(groups: int) -> _Machines:
    """The first `groups` pumps of the plant; pump k is the same for every number of pumps."""

    def draw(generator: np.random.Generator) -> tuple[float, ...]:
        def uniform(low: float, high: float) -> float:
            return float(generator.uniform(low, high))

        best = uniform(110, 220)
        head_0 = uniform(70, 120)
        curve = head_0 * uniform(0.16, 0.26) / best**2
        static = head_0 * uniform(0.12, 0.25)
        system = (head_0 - static) * uniform(0.5, 0.75) / best**2
        return (
            uniform(2850, 2980), head_0, curve, static, system, best, uniform(0.70, 0.82), uniform(14, 22),
            uniform(2050, 2650), uniform(0.8, 1.8), uniform(24, 38), uniform(90, 170), uniform(5, 9),
            uniform(0.10, 0.25) / best**2, best * uniform(1.5, 1.9), uniform(0.35, 0.65),
        )  # fmt: skip

    rows = np.array([draw(np.random.default_rng([_MACHINES_SEED, index])) for index in range(groups)])
    return _Machines(*rows.T)


def _steps(rng: np.random.Generator, steps: int, groups: int, rate: float, low: float, high: float) -> Floats:
    """Piecewise constant [T, G]: at each step, with probability `rate`, a new level uniform in [low, high]."""
    drawn = rng.random((steps, groups, 2))
    jump, level = drawn[:, :, 0] < rate, low + (high - low) * drawn[:, :, 1]
    jump[0] = True
    since = np.maximum.accumulate(np.where(jump, np.arange(steps)[:, None], 0), axis=0)
    return np.take_along_axis(level, since, axis=0)


def _wander(noise: Floats, minutes: float) -> Floats:
    """AR(1) process of unit variance and time constant `minutes`, from white noise [T, ...]."""
    keep = np.exp(-1.0 / minutes)
    fresh = np.sqrt(1.0 - keep**2)
    out = np.empty_like(noise)
    out[0] = noise[0]
    for step in range(1, len(noise)):
        out[step] = keep * out[step - 1] + fresh * noise[step]
    return out


def _demand(rngs: Iterator[np.random.Generator], minute: Floats, machines: _Machines) -> Floats:
    """Demand [T, G], about 0.3 to 1.15 of the rated load: day, shifts, weekend, wandering and steps."""
    steps, groups = len(minute), len(machines.tank)
    hour = (minute / 60) % 24
    day = 0.5 - 0.5 * np.cos(2 * np.pi * (hour - 4) / 24)
    early, late = 1 / (1 + np.exp(-(hour - 6) * 4)), 1 / (1 + np.exp(-(hour - 22) * 4))
    working = early - late
    weekend = (minute // STEPS_PER_DAY + 3) % 7 >= 5  # 1970-01-01 was a Thursday
    common = 0.50 + 0.14 * day + 0.16 * working * np.where(weekend, 0.4, 1.0)
    plant = _wander(next(rngs).standard_normal((steps, 1)), 25)
    slow = _wander(next(rngs).standard_normal((steps, groups)), 18)
    fast = _wander(next(rngs).standard_normal((steps, groups)), 2.0)
    jumps = _steps(next(rngs), steps, groups, 1 / 75, -0.11, 0.11)
    own = machines.own_share
    return np.clip(common[:, None] + 0.05 * (1 - own) * plant + own * (0.07 * slow + jumps) + 0.07 * fast, 0.25, 1.2)


def simulate(days: float = 7.0, *, groups: int = 8, seed: int = 0, start_ms: int = START_MS) -> Plant:
    """Run the plant.

    Args:
        days: Duration in days of 1,440 one-minute steps.
        groups: Number of pumps, named pump-1, pump-2, ...
        seed: Draws demand, valves, weather and noise.
        start_ms: Time of the first step, epoch ms; the hour of the day follows from it.

    Returns:
        Readings without gaps; the caller adds dropouts.

    Raises:
        ValueError: there would be no step or no group.
    """
    steps = round(days * STEPS_PER_DAY)
    if steps < 1 or groups < 1:
        raise ValueError(f"expected at least one step and one group, found {days} days and {groups} groups")
    machines = _machines(groups)
    # One generator per purpose, and each draws time first: a longer run begins with the shorter one.
    rngs = iter(np.random.default_rng([seed, groups]).spawn(8))
    minute = start_ms / STEP_MS + np.arange(steps, dtype=np.float64)

    demand = _demand(rngs, minute, machines)
    valve = _steps(next(rngs), steps, groups, 1 / 180, 0.72, 1.0)
    weather = _wander(next(rngs).standard_normal((steps, 1)), 600)
    shake = np.exp(0.04 * _wander(next(rngs).standard_normal((steps, groups)), 4))
    noise = next(rngs).standard_normal((steps, groups, len(SENSORS)))

    m = machines
    speed = _lag(m.rated_speed * (0.55 + 0.45 * demand), 1.2)
    turn = speed / m.rated_speed
    # Pump curve n^2 H0 - a Q^2 meets system curve Hs + k Q^2 / valve^2.
    flow = np.sqrt(np.maximum(turn**2 * m.head_0 - m.static_head, 0.0) / (m.curve + m.system / valve**2))
    head = turn**2 * m.head_0 - m.curve * flow**2
    level = _tank(flow, m)
    suction = 0.9 + 0.0981 * m.tank_height * level / 100 - m.suction_loss * flow**2
    load = flow / (m.best_flow * np.maximum(turn, 0.2))  # 1 at the best efficiency point
    efficiency = m.efficiency * (1 - 0.55 * (load - 1) ** 2)
    power_kw = 9.81 * flow / 3600 * head / np.maximum(efficiency, 0.2)
    current = m.idle_current + 1.72 * power_kw
    rated = m.idle_current + 1.72 * 9.81 * m.best_flow / 3600 * (m.head_0 - m.curve * m.best_flow**2) / m.efficiency
    ambient = 18 + 4 * np.sin(2 * np.pi * ((minute / 60) % 24 - 9) / 24)[:, None] + 2.5 * weather
    bearing = ambient + _lag(m.heating * (current / rated) ** 1.5 + 9 * turn**2, 45)
    cavitation = np.clip(1.15 - suction, 0.0, None)
    near = np.exp(-(((speed - m.resonance) / 110) ** 2))
    vibration = (m.wear * turn**2 + 2.2 * np.abs(load - 1) ** 1.5 + 1.1 * near + 3.0 * cavitation) * shake

    clean = np.stack([flow, speed, suction, suction + 0.0981 * head, current, bearing, vibration, level], axis=-1)
    readings = clean + noise * np.array([sensor.noise for sensor in SENSORS])
    readings = np.clip(readings, [s.minimum for s in SENSORS], [s.maximum for s in SENSORS])
    times_ms = start_ms + STEP_MS * np.arange(steps, dtype=np.int64)
    names = tuple(f"pump-{index + 1}" for index in range(groups))
    return Plant(names, SENSORS, times_ms, np.ascontiguousarray(readings.transpose(1, 2, 0), dtype=np.float32))


def _lag(target: Floats, minutes: float) -> Floats:
    """First-order lag of [T, G] towards `target`, starting at rest on it."""
    follow = 1.0 - np.exp(-1.0 / minutes)
    out = np.empty_like(target)
    out[0] = target[0]
    for step in range(1, len(target)):
        out[step] = out[step - 1] + follow * (target[step] - out[step - 1])
    return out


def _tank(flow: Floats, machines: _Machines) -> Floats:
    """Level in % [T, G]: the pump draws, a float valve fills between 35 and 85 %."""
    level = np.full(flow.shape[1], 60.0)
    filling = np.zeros(flow.shape[1], np.bool_)
    out = np.empty_like(flow)
    for step in range(len(flow)):
        filling = np.where(level < 35.0, True, np.where(level > 85.0, False, filling))
        inflow = np.where(filling, machines.supply, 0.25 * machines.supply)
        level = np.clip(level + 100.0 * (inflow - flow[step]) / 60.0 / machines.tank, 0.0, 100.0)
        out[step] = level
    return out


def write_parquet(plant: Plant, path: Path) -> None:
    """Write a wide file: column `time` (timestamp[ms, UTC]) and one float32 column `<group>.<sensor>` per sensor."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {"time": pa.array(plant.times_ms, pa.timestamp("ms", tz="UTC"))}
    for group, rows in zip(plant.groups, plant.values, strict=True):
        for sensor, row in zip(plant.sensors, rows, strict=True):
            columns[f"{group}.{sensor.id}"] = pa.array(row)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    pq.write_table(pa.table(columns), partial, compression="zstd")
    partial.replace(path)


def main(arguments: list[str] | None = None) -> None:
    """`python -m glaim_stream.feed.plant`: write a simulated plant to a Parquet file."""
    parser = argparse.ArgumentParser(
        prog="python -m glaim_stream.feed.plant", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--out", type=Path, required=True, help="Parquet file to write")
    parser.add_argument("--days", type=float, default=14.0, help="length in days of one-minute steps (default 14)")
    parser.add_argument("--groups", type=int, default=8, help="number of pumps (default 8)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default 0)")
    given = parser.parse_args(arguments)
    plant = simulate(given.days, groups=given.groups, seed=given.seed)
    write_parquet(plant, given.out)
    print(
        f"{given.out}: {len(plant.groups)} groups of {len(plant.sensors)} sensors, {len(plant.times_ms)} steps of 60 s"
    )
