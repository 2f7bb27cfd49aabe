"""Drift in the stream: the sensor at fault is named, a drift of all is one event, and a rebuild finds the same ones."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from glaim_stream.core.readings import Readings
from glaim_stream.health import GridSeries, LiveHabits
from glaim_stream.windows.sensor_health import SensorEvent
from tests.health.plant import LEARNED, STEP_MS, deviation, habits, place, plant
from tests.health.stream import described, events_of, events_with_rebuild, readings, windows

START, LASTS = 240, 200  # steps of a fault, in `later()`
FAULT = np.arange(START, START + LASTS)
RAMP = np.minimum(np.arange(LASTS) / 48, 1.0)


def later(group: int = 0) -> GridSeries:
    part = plant()[1][group].part(LEARNED, LEARNED + START + LASTS + 160)
    return replace(part, values=part.values.copy(), observed=part.observed.copy(), offset=None)


def drifting(*sensors: str, group: int = 0) -> GridSeries:
    series = later(group)
    for number, sensor in enumerate(sensors):
        series.values[place(sensor), FAULT] += (-1) ** number * 5 * deviation(sensor) * RAMP
    return series


def begins(found: list[SensorEvent]) -> list[SensorEvent]:
    return [each for each in found if each.kind is not None]


@pytest.mark.parametrize("sensor", ["flow", "speed", "motor_current", "bearing_temperature"])
def test_a_drifting_sensor_is_named_and_its_neighbours_are_not(sensor: str) -> None:
    series = drifting(sensor)
    found = begins(events_of(windows(), readings([series, later(1)])))
    (first,) = [each for each in found if each.detector == "drift"]
    assert described(first) == ("drift", "drift", (sensor,))
    assert (series.first + START) * STEP_MS < first.ts_ms <= (series.first + START + 96) * STEP_MS
    assert first.statistic > first.threshold >= first.usual > 0


def test_a_drift_of_all_sensors_is_one_shift_of_the_group_and_ends() -> None:
    found = events_of(windows(), readings([drifting(*plant()[0])]))
    assert [described(each) for each in begins(found)] == [("drift", "shift", plant()[0])]
    ended = [sensor for each in found if each.kind is None for sensor in described(each)[2]]
    assert sorted(ended) == sorted(plant()[0])


def test_a_frozen_sensor_is_no_drift_and_its_neighbours_have_none() -> None:
    series = later()
    series.values[place("flow"), FAULT] = series.values[place("flow"), START] + 3 * deviation("flow")
    found = begins(events_of(windows(), readings([series])))
    assert {each.detector for each in found if "flow" not in described(each)[2]} == set()
    assert described(found[0]) == ("runs", "frozen", ("flow",))


def test_habits_that_know_no_drift_judge_everything_else() -> None:
    known = habits()
    older = replace(known, threshold={**known.threshold, "drift": np.full(len(known.sensors), np.inf)})
    given = faulty()
    found = events_of(windows(known=LiveHabits(older)), given)
    assert found
    assert found == [each for each in whole() if each.detector != "drift"]


@lru_cache(maxsize=1)
def faulty() -> Readings:
    """Drifts of one and of all sensors in two pumps, a frozen one, holes, and readings up to three steps late."""
    first, second = drifting("flow"), drifting(*plant()[0], group=1)
    rng = np.random.default_rng(7)
    first.values[place("vibration"), START + 120 : START + 170] = first.values[place("vibration"), START + 120]
    for series in (first, second):
        series.observed[rng.random(series.observed.shape) < 0.03] = False
    second.observed[2:4, START + 90 : START + 130] = False
    count = len(readings([first, second]))
    return readings([first, second], np.argsort(np.arange(count) + rng.integers(0, 48, count), kind="stable"))


@lru_cache(maxsize=1)
def whole() -> list[SensorEvent]:
    found = events_of(windows(), faulty())
    assert {str(each.kind) for each in found if each.detector == "drift"} == {"None", "drift", "shift"}
    return found


@pytest.mark.parametrize("split", [1, 3_000, 5_500])  # before the faults, and during each of them
def test_a_rebuild_gives_the_same_events_to_the_bit(split: int) -> None:
    assert events_with_rebuild(faulty(), split) == whole()
