"""Habits of sensors about which little can be learned, and of readings of any size."""

import numpy as np
import pytest
from numpy.typing import NDArray

from glaim_stream.core.errors import ModelError
from glaim_stream.health.detect import Fault, detect
from glaim_stream.health.habits import FEWEST_STEPS, learn
from glaim_stream.health.series import GridSeries

STEPS, LEARNED = 4_000, 2_000
SENSORS = ("walk", "odd")
RANDOM = np.random.default_rng(0)
NOISE = RANDOM.normal(size=STEPS)
SEEN = np.ones(STEPS, np.bool_)


def series(odd: NDArray[np.float64], seen: NDArray[np.bool_] = SEEN, name: str = "a") -> GridSeries:
    values = np.stack([np.random.default_rng(1).normal(size=STEPS), odd])
    return GridSeries(name, 0, 60_000, values, np.stack([SEEN, seen]))


@pytest.mark.parametrize(
    "odd",
    [
        np.zeros(STEPS),
        np.full(STEPS, 1e300),
        NOISE * 1e306,
        NOISE * 1e-300,
        (NOISE > 1.5) * 1.0,
        np.where(np.arange(STEPS) == 700, 1e308, NOISE),
        np.where(np.arange(STEPS) < 5, -1e308, 1e308),
        np.round(NOISE),
    ],
    ids=["zero", "constant", "huge", "tiny", "state", "spike", "extremes", "coarse"],
)
def test_sensors_of_any_values_are_learned_and_judged_without_a_warning(odd: NDArray[np.float64]) -> None:
    part = series(odd)
    habits = learn([part.part(0, LEARNED)], SENSORS)
    for event in detect(habits, part, LEARNED):
        assert np.isfinite(event.score)
        assert event.kind not in (Fault.SILENT, Fault.OUTAGE, Fault.CLOCK)


def test_a_sensor_that_was_never_seen_is_not_judged_when_it_comes() -> None:
    later = np.arange(STEPS) > LEARNED + 500
    part = series(np.zeros(STEPS), later)
    habits = learn([part.part(0, LEARNED)], SENSORS)
    assert habits.judged["a"].tolist() == [True, False]
    assert all("odd" not in event.sensors for event in detect(habits, part, LEARNED))


def test_one_sensor_alone_has_no_estimate_and_is_judged_by_itself() -> None:
    part = series(NOISE)
    alone = GridSeries("a", 0, 60_000, part.values[1:].copy(), part.observed[1:])
    habits = learn([alone.part(0, LEARNED)], SENSORS[1:])
    assert habits.estimates is None
    alone.values[0, 3_000:3_100] = 0.25
    assert [event.kind for event in detect(habits, alone, LEARNED)] == [Fault.FROZEN]


def test_groups_share_what_is_learned_and_keep_their_own_levels() -> None:
    groups = [series(NOISE + level, name=name) for name, level in (("a", 0.0), ("b", 1e4))]
    habits = learn([each.part(0, LEARNED) for each in groups], SENSORS)
    assert habits.levels["b"][1] - habits.levels["a"][1] == pytest.approx(1e4)
    assert [event for each in groups for event in detect(habits, each, LEARNED)] == []


def test_too_few_steps_a_rate_of_nothing_and_a_foreign_form_are_refused() -> None:
    part = series(NOISE)
    with pytest.raises(ModelError, match=f"habits need {FEWEST_STEPS} steps of a group, found 100"):
        learn([part.part(0, 100)], SENSORS)
    with pytest.raises(ValueError, match="expected a rate above 0, found 0"):
        learn([part], SENSORS, rate=0)
