"""A meter that adds others up: the sensor at fault is named, and the ones that it is summed with are not."""

from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.health_live import LOOK_BACK, found_live
from glaim_stream.health.detect import MEMORY, Event, Fault, detect
from glaim_stream.health.habits import Habits, learn
from glaim_stream.health.series import GridSeries

SENSORS = ("upper", "lower", "total", "east", "west", "both", "ambient")
LEARNED, LASTS = 9_000, 192
START = LEARNED + MEMORY
GROUP = "transformer"


@lru_cache(maxsize=1)
def values() -> NDArray[np.float64]:
    """Four loads that follow one slow course in part, and sums of pairs: float64 [C, N]."""
    random = np.random.default_rng(3)
    steps = START + 4 * LASTS
    slow = np.zeros((6, steps))
    for step in range(1, steps):
        slow[:, step] = 0.97 * slow[:, step - 1] + random.normal(0, 0.25, 6)
    upper, lower, east, west = 0.5 * slow[:4] + slow[4] + random.normal(0, 0.05, (4, steps))
    total, both = upper + lower, 2 * east + west
    meters = np.stack([upper, lower, total, east, west, both, slow[5]])
    return np.asarray(meters + random.normal(0, 0.02, meters.shape))


def series(made: NDArray[np.float64]) -> GridSeries:
    return GridSeries(GROUP, 0, 60_000, made, np.ones(made.shape, np.bool_))


@lru_cache(maxsize=1)
def habits() -> Habits:
    return learn([series(values()[:, :LEARNED])], SENSORS)


def with_ramp(*sensors: str, sign: float = 1.0) -> GridSeries:
    made = values().copy()
    ramp = np.minimum(np.arange(made.shape[1] - START) / (LASTS / 2), 1.0)
    for number, sensor in enumerate(sensors):
        place = SENSORS.index(sensor)
        made[place, START:] += sign * (-1) ** number * 5 * made[place, :LEARNED].std() * ramp
    return series(made).part(LEARNED, START + LASTS)


def about_residuals(found: list[Event]) -> list[tuple[Fault, tuple[str, ...]]]:
    return [(each.kind, each.sensors) for each in found if each.kind in (Fault.DRIFT, Fault.SHIFT)]


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("sensor", ["upper", "total", "east", "both"])
def test_a_drift_of_one_summand_or_of_the_sum_names_that_meter_alone(sensor: str, sign: float) -> None:
    given = with_ramp(sensor, sign=sign)
    assert about_residuals(detect(habits(), given, MEMORY)) == [(Fault.DRIFT, (sensor,))]
    assert about_residuals(found_live(habits(), given, LOOK_BACK, SENSORS)) == [(Fault.DRIFT, (sensor,))]


@pytest.mark.parametrize("sensor", ["upper", "total"])
def test_a_meter_stuck_at_its_limit_is_not_a_shift_of_all(sensor: str) -> None:
    place, made = SENSORS.index(sensor), values().copy()
    made[place, START:] = habits().highest[place]
    given = series(made).part(LEARNED, START + LASTS)
    for found in (detect(habits(), given, MEMORY), found_live(habits(), given, LOOK_BACK, SENSORS)):
        assert {each.sensors for each in found} == {(sensor,)}
        assert found[0].kind == Fault.LIMIT


def test_a_drift_of_all_meters_to_and_fro_is_still_a_shift() -> None:
    given = with_ramp(*SENSORS)
    assert [kind for kind, _ in about_residuals(detect(habits(), given, MEMORY))] == [Fault.SHIFT]
    assert [kind for kind, _ in about_residuals(found_live(habits(), given, LOOK_BACK, SENSORS))][-1] == Fault.SHIFT


def test_of_twins_that_nothing_else_tells_apart_one_is_named() -> None:
    random = np.random.default_rng(8)
    made = random.normal(size=(5, START + 2 * LASTS))
    made[1] = made[0]
    made[:2] += random.normal(0, 0.05, made[:2].shape)
    learned = learn([series(made[:, :LEARNED])], SENSORS[:5])
    made[1, START:] += 0.9 * made[1, :LEARNED].std()
    given = series(made).part(LEARNED, START + LASTS)
    for found in (detect(learned, given, MEMORY), found_live(learned, given, LOOK_BACK, SENSORS[:5])):
        ((kind, sensors),) = about_residuals(found)
        assert kind == Fault.DRIFT
        assert sensors in {("upper",), ("lower",)}
