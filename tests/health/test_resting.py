"""A shut valve, dry weather and a full tank look frozen, and are no fault where they are usual."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from glaim_stream.health.detect import Fault, detect
from glaim_stream.health.habits import Habits, learn
from glaim_stream.health.series import GridSeries

STEPS, LEARNED = 9_000, 6_000
SENSORS = ("valve", "flow", "tank", "rain")


def made(seed: int = 0) -> NDArray[np.float64]:
    """A valve that is shut for 20 to 40 steps now and then, the flow behind it, a tank that is full, and rain."""
    random = np.random.default_rng(seed)
    open_, at = np.ones(STEPS, np.bool_), 0
    while at < STEPS:
        at += int(random.integers(60, 120))
        shut = int(random.integers(20, 40))
        open_[at : at + shut] = False
        at += shut
    flow = np.where(open_, 50 + random.normal(0, 2, STEPS), 0.0)
    tank = np.minimum(95 + 8 * np.sin(np.arange(STEPS) / 40) + random.normal(0, 0.5, STEPS), 100.0)
    rain = np.maximum(random.gamma(0.05, 10, STEPS) - 2, 0.0)
    return np.stack([np.where(open_, 80 + random.normal(0, 1, STEPS), 0.0), flow, tank, rain])


def series(values: NDArray[np.float64]) -> GridSeries:
    return GridSeries("unit-1", 0, 60_000, values, np.ones(values.shape, np.bool_))


@lru_cache(maxsize=1)
def habits() -> Habits:
    return learn([series(made()).part(0, LEARNED)], SENSORS)


def stuck(values: NDArray[np.float64]) -> list[tuple[Fault, tuple[str, ...]]]:
    found = detect(habits(), series(values), LEARNED)
    return [(each.kind, each.sensors) for each in found if each.kind in (Fault.FROZEN, Fault.LIMIT)]


def test_usual_rests_are_no_event() -> None:
    assert stuck(made()) == []


def test_a_valve_that_is_shut_for_longer_stops_the_flow_too_and_is_no_event() -> None:
    values = made()
    values[:2, 7_000:7_400] = 0.0
    assert stuck(values) == []


def test_a_flow_that_stays_at_nothing_while_the_valve_is_open_is_an_event() -> None:
    values = made()
    values[0, 7_000:7_400] = 80 + np.random.default_rng(5).normal(0, 1, 400)
    values[1, 7_000:7_400] = 0.0
    assert [sensors for _, sensors in stuck(values)] == [("flow",)]


def test_a_sensor_frozen_at_an_ordinary_value_is_an_event_soon() -> None:
    values = made()
    values[2, 7_000:7_400] = 91.234
    found = detect(habits(), series(values), LEARNED)
    frozen = next(each for each in found if each.kind == Fault.FROZEN)
    assert frozen.sensors == ("tank",)
    assert frozen.ts_ms // 60_000 < 7_020


def test_rests_at_values_that_a_shift_of_all_has_moved_are_part_of_it() -> None:
    values = made()
    values[:, 7_000:7_400] += (5 * values.std(axis=1) * (1, -1, 1, 1))[:, None] * np.minimum(np.arange(400) / 96, 1)
    first, *others = [each for each in detect(habits(), series(values), LEARNED) if each.ts_ms < 7_250 * 60_000]
    assert first.kind == Fault.SHIFT
    assert [each for each in others if each.kind in (Fault.FROZEN, Fault.LIMIT)] == []


def test_a_sensor_at_rest_while_those_that_rest_with_it_are_silent_is_no_event() -> None:
    values = made()
    values[1, 7_000:7_400] = 0.0
    values[0, 7_000:7_400] = 0.0
    seen = np.ones(values.shape, np.bool_)
    seen[[0, 2], 7_000:7_400] = False
    found = detect(habits(), replace(series(values), observed=seen), LEARNED)
    assert [each.sensors for each in found if each.kind == Fault.OUTAGE] == [("valve", "tank")]
    assert {each.kind for each in found} <= {Fault.OUTAGE, Fault.DRIFT}
