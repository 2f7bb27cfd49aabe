"""Faulty sensors are found as blocks of steps end, whatever the batches, and after a rebuild as before."""

import copy
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from glaim_stream.core.readings import Readings
from glaim_stream.health import Fault, GridSeries, LiveHabits, detect, learn
from glaim_stream.windows.partition import PartitionWindows
from glaim_stream.windows.sensor_health import SensorEvent
from tests.health.plant import LEARNED, RATE, STEP_MS, deviation, habits, place, plant
from tests.health.stream import described, events_of, events_with_rebuild, live_habits, names, readings, rules, windows

START, LASTS = 200, 160  # steps of a fault, in `later()`


def later(steps: int = START + LASTS + 160, group: int = 0) -> GridSeries:
    part = plant()[1][group].part(LEARNED, LEARNED + steps)
    assert part.offset is not None
    return replace(part, values=part.values.copy(), observed=part.observed.copy(), offset=part.offset.copy())


def stutter(series: GridSeries, sensor: int, steps: NDArray[np.int64], seed: int = 7) -> None:
    """Stamps of a sensor anywhere in their steps."""
    assert series.offset is not None
    series.offset[sensor, steps] = np.random.default_rng(seed).uniform(0, 1, len(steps)).round(3)


def at(series: GridSeries, steps: int) -> int:
    return (series.first + steps) * STEP_MS


FAULT = np.arange(START, START + LASTS)


def found_in(*series: GridSeries) -> list[SensorEvent]:
    return events_of(windows(), readings(series))


def test_the_plant_as_it_is_has_no_event() -> None:
    assert found_in(later(1440)) == []


def test_a_frozen_sensor_begins_and_ends_once() -> None:
    series = later()
    series.values[place("flow"), FAULT] = series.values[place("flow"), START]
    begin, end = found_in(series)
    assert described(begin) == ("runs", "frozen", ("flow",))
    assert begin.since_ms == at(series, START)
    assert at(series, START) < begin.ts_ms <= at(series, START + 48)
    assert begin.statistic > begin.threshold >= begin.usual > 0
    assert described(end) == ("runs", "end", ("flow",))
    assert end.until_ms is not None
    assert at(series, START + LASTS - 8) < end.until_ms <= at(series, START + LASTS + 8)


def test_a_sensor_at_the_largest_value_it_had_is_at_its_limit() -> None:
    series = later()
    series.values[place("flow"), FAULT] = habits().highest[place("flow")]
    begin, _ = found_in(series)
    assert described(begin) == ("runs", "limit", ("flow",))


@pytest.mark.parametrize("kind", ["spiking", "chatter"])
def test_spikes_and_chatter_are_told_apart(kind: str) -> None:
    series = later()
    jump = 6.0 * (np.random.default_rng(1).random(LASTS) < 0.1) if kind == "spiking" else 2 * (-1.0) ** FAULT
    series.values[place("tank_level"), FAULT] += jump * deviation("tank_level")
    begin, end = found_in(series)
    assert described(begin) == ("jumps", kind, ("tank_level",))
    assert described(end)[1:] == ("end", ("tank_level",))


def test_gaps_that_begin_too_often_are_an_event() -> None:
    series = later()
    series.observed[place("flow"), FAULT] = np.random.default_rng(3).random(LASTS) > 0.4
    begin = found_in(series)[0]
    assert described(begin) == ("gaps", "missingness", ("flow",))


@pytest.mark.parametrize("share_missing", [0.0, 0.3])
def test_a_stuttering_clock_is_found_where_the_file_finds_it(share_missing: float) -> None:
    series = later()
    stutter(series, place("flow"), FAULT)
    series.observed[place("flow")] &= np.random.default_rng(3).random(series.steps) >= share_missing
    begin, end = [each for each in found_in(series) if each.detector == "clock"]
    assert described(begin) == ("clock", "clock", ("flow",))
    assert at(series, START) < begin.ts_ms <= at(series, START + 24)
    assert begin.since_ms == begin.ts_ms - 47 * (at(series, 1) - at(series, 0)), "48 steps are judged"
    assert begin.statistic > begin.threshold >= begin.usual > 0
    assert described(end) == ("clock", "end", ("flow",))
    (in_file,) = [each for each in detect(habits(), series) if each.kind == Fault.CLOCK]
    assert in_file.ts_ms == begin.ts_ms
    assert in_file.sensors == ("flow",)


def test_a_clock_that_is_wrong_but_even_or_late_by_less_than_its_habit_is_no_event() -> None:
    series = later()
    assert series.offset is not None
    series.offset[place("flow"), START:] = 0.4
    series.offset[place("speed")] = np.linspace(0, 0.999, series.steps)
    series.offset[place("tank_level"), FAULT] = np.where(FAULT % 2, 0.999, 0.001)  # about the end of a step
    assert found_in(series) == []


def test_a_clock_is_judged_by_the_jitter_that_was_learned() -> None:
    sensors, groups = plant()
    random = np.random.default_rng(2)
    learned = [
        replace(each, offset=random.uniform(0.4, 0.5, each.values.shape))
        for each in (group.part(0, LEARNED) for group in groups)
    ]
    known = LiveHabits(learn(learned, sensors, rate=RATE))
    series = replace(later(), offset=random.uniform(0.4, 0.5, later().values.shape))
    assert events_of(windows(known=known), readings([series])) == []
    stutter(series, place("flow"), FAULT)
    begin, _ = events_of(windows(known=known), readings([series]))
    assert described(begin) == ("clock", "clock", ("flow",))


def test_habits_without_stamps_judge_no_clock() -> None:
    sensors, groups = plant()
    learned = learn([replace(each.part(0, LEARNED), offset=None) for each in groups], sensors, rate=RATE)
    assert not LiveHabits(learned).judges_clock
    series = later()
    stutter(series, place("flow"), FAULT)
    assert events_of(windows(known=LiveHabits(learned)), readings([series])) == []
    assert [each for each in detect(learned, series) if each.kind == Fault.CLOCK] == []


def test_a_silent_sensor_begins_since_its_first_missing_step_and_ends_when_it_speaks() -> None:
    series = later()
    series.observed[place("vibration"), FAULT] = False
    begin, end = [each for each in found_in(series) if each.detector == "silence"]
    assert described(begin) == ("silence", "silent", ("vibration",))
    assert begin.since_ms == at(series, START)
    assert described(end) == ("silence", "end", ("vibration",))


def test_seven_silent_sensors_are_one_outage() -> None:
    series = later()
    series.observed[1:, FAULT] = False
    begins = [each for each in found_in(series) if each.detector == "silence" and each.kind is not None]
    assert [described(each) for each in begins] == [("silence", "outage", plant()[0][1:])]


def test_a_sensor_at_its_limit_while_others_are_silent_is_no_event_of_its_own() -> None:
    """Those that rest with it may be among the silent ones: the air is saturated, and the other hygrometer is off."""
    series = later()
    series.values[place("speed"), START + 20 : START + 150] = habits().highest[place("speed")]
    assert "limit" in {str(each.kind) for each in found_in(series)}
    series.observed[2:6, FAULT] = False
    assert {each.detector for each in found_in(series) if each.kind is not None} == {"silence"}


def test_a_group_that_goes_dark_is_an_outage_whose_end_is_the_dark() -> None:
    """All eight sensors fall silent. After `max_gap` steps the group is dark, which is the outage topic's."""
    series, other = later(), later(group=1)
    series.observed[:, START:] = False
    begin, end = [each for each in found_in(series, other) if each.detector == "silence"]
    assert described(begin) == ("silence", "outage", plant()[0])
    assert described(end) == ("silence", "end", plant()[0])
    assert end.until_ms == at(series, START)


def test_sensors_of_a_known_group_that_never_speak_are_silent_and_those_of_an_unknown_group_are_not() -> None:
    series = later()
    series.observed[place("flow")] = False
    assert [described(each) for each in found_in(series)] == [("silence", "silent", ("flow",))]
    assert events_of(windows(), readings([replace(series, group=names()[0])]))
    known = live_habits().habits
    nobody = replace(known, judged={"other": known.judged[names()[0]]}, levels={"other": known.levels[names()[0]]})
    assert events_of(windows(known=type(live_habits())(nobody)), readings([series])) == []


def test_without_habits_nothing_is_judged() -> None:
    series = later()
    series.values[place("flow"), FAULT] = series.values[place("flow"), START]
    made = PartitionWindows(rules(), group_names=names(), habits=lambda model: None)
    assert events_of(made, readings([series])) == []
    assert [each.models[0].health.judges for each in (made, windows())] == [False, True]  # type: ignore[union-attr]


def test_the_number_of_faulty_sensors_falls_to_none_with_the_last_end() -> None:
    series = later()
    series.values[place("flow"), FAULT] = series.values[place("flow"), START]
    given, made = readings([series]), windows()
    half = int((given.event_time_ms < at(series, START + 100)).sum())
    events_of(made, given.where(np.arange(half)))
    assert made.faulty_sensors()["runs"] == 1
    (tracker,) = [each.health for each in made.models]
    assert tracker is not None
    assert tracker.faulty_of(0) == {place("flow"): ["runs"]}
    assert events_of(made, given.where(np.arange(half, len(given))))
    assert sum(made.faulty_sensors().values()) == 0


@lru_cache(maxsize=1)
def faulty() -> Readings:
    """Faults of every kind in two pumps, with holes, and readings that arrive up to three steps late."""
    first, second = later(760), later(760, 1)
    rng = np.random.default_rng(5)
    for series in (first, second):
        series.observed[rng.random(series.observed.shape) < 0.03] = False
    first.values[0, 150:300] = first.values[0, 150]
    first.values[1, 260:400] += 6 * deviation(plant()[0][1]) * (rng.random(140) < 0.1)
    first.values[2, 300:420] += 2 * deviation(plant()[0][2]) * (-1.0) ** np.arange(120)
    first.observed[3:6, 430:500] = False
    second.observed[:, 330:420] = False
    second.observed[4, 100:280] = rng.random(180) > 0.4
    second.values[6, 470:] = habits().lowest[6]
    second.observed[7, 560:] = False
    stutter(second, 2, np.arange(200, 300))
    count = len(readings([first, second]))
    return readings([first, second], np.argsort(np.arange(count) + rng.integers(0, 48, count), kind="stable"))


@lru_cache(maxsize=1)
def whole() -> list[SensorEvent]:
    found = events_of(windows(), faulty())
    assert {str(each.kind) for each in found} >= {"None", "frozen", "limit", "spiking", "chatter", "silent", "outage"}
    assert "clock" in {each.detector for each in found}
    return found


@settings(max_examples=3, deadline=None)
@given(st.lists(st.integers(1, 10_000), max_size=30))
def test_the_events_do_not_depend_on_the_batches(cuts: list[int]) -> None:
    assert events_of(windows(), faulty(), cuts) == whole()


@settings(max_examples=5, deadline=None)
@given(st.integers(1, 10_000))
@example(6453)  # both groups have an event at one step, and the second is the first to speak in the rebuild
def test_a_rebuild_at_any_record_gives_the_same_events_to_the_bit(split: int) -> None:
    assert events_with_rebuild(faulty(), split) == whole()


def test_a_copy_of_windows_shares_the_habits_and_continues_alike() -> None:
    given, made = faulty(), windows()
    half = np.arange(len(given) // 2)
    events_of(made, given.where(half))
    twin = copy.deepcopy(made)
    rest = given.where(np.arange(len(half), len(given)))
    assert events_of(twin, rest) == events_of(made, rest)


def test_short_windows_are_not_judged() -> None:
    made = PartitionWindows(rules(40, 30), group_names=names(), habits=lambda model: live_habits())
    assert made.models[0].health is None
    assert windows().models[0].health is not None
