"""The simulated plant as series: habits that are learned from its first days, and later days to inject faults into."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from glaim_stream.feed.plant import simulate
from glaim_stream.health.detect import MEMORY, Event, detect
from glaim_stream.health.habits import Habits, learn
from glaim_stream.health.series import GridSeries

STEP_MS = 60_000
LEARNED, LASTS = 8 * 1440, 320  # steps
RATE = 100.0  # false alarms in 1,000 sensor-days: 128 of them are few to learn lower rates from
START = MEMORY + 40  # of a fault, in `later()`


@lru_cache(maxsize=1)
def plant() -> tuple[tuple[str, ...], tuple[GridSeries, ...]]:
    made = simulate(11, groups=2, seed=3)
    first = int(made.times_ms[0]) // STEP_MS
    seen = np.ones(made.values.shape[1:], np.bool_)
    return made.sensor_ids, tuple(
        GridSeries(name, first, STEP_MS, values.astype(np.float64), seen, np.zeros(seen.shape))
        for name, values in zip(made.groups, made.values, strict=True)
    )


@lru_cache(maxsize=1)
def habits() -> Habits:
    sensors, groups = plant()
    return learn([each.part(0, LEARNED) for each in groups], sensors, rate=RATE)


def later() -> GridSeries:
    """A pump after the days that were learned from: steps to look back to, and some to inject a fault into."""
    part = plant()[1][0].part(LEARNED, LEARNED + START + LASTS)
    assert part.offset is not None
    return replace(part, values=part.values.copy(), observed=part.observed.copy(), offset=part.offset.copy())


def place(sensor: str) -> int:
    return plant()[0].index(sensor)


def deviation(sensor: str) -> float:
    return float(plant()[1][0].values[place(sensor), :LEARNED].std())


def fault() -> NDArray[np.int64]:
    """The steps of a fault."""
    return np.arange(START, START + LASTS)


def events(series: GridSeries) -> list[Event]:
    return detect(habits(), series, MEMORY)


def step_of(ms: int, series: GridSeries) -> int:
    return ms // STEP_MS - series.first
