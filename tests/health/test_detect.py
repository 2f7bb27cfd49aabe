"""Faults in the simulated plant are found and named, once each, and what only looks like a fault is none."""

from dataclasses import replace

import numpy as np
import pytest

from glaim_stream.health.detect import MEMORY, Event, Fault, detect
from glaim_stream.health.series import GridSeries
from tests.health.plant import (
    LASTS,
    LEARNED,
    START,
    STEP_MS,
    deviation,
    events,
    fault,
    habits,
    later,
    place,
    plant,
    step_of,
)

SENSORS = ("flow", "speed", "motor_current", "bearing_temperature", "tank_level")


def only(found: list[Event]) -> Event:
    assert len(found) == 1, found
    return found[0]


def test_the_plant_as_it_is_has_no_event() -> None:
    assert events(later()) == []


@pytest.mark.parametrize("sensor", SENSORS)
def test_a_frozen_sensor_is_one_event_since_its_first_repeated_reading(sensor: str) -> None:
    series = later()
    series.values[place(sensor), fault()] = series.values[place(sensor), START]
    found = only(events(series))
    assert (found.kind, found.sensors) == (Fault.FROZEN, (sensor,))
    assert step_of(found.since_ms, series) == START
    assert START < step_of(found.ts_ms, series) < START + 30


def test_a_sensor_stuck_at_the_largest_value_it_had_is_at_its_limit() -> None:
    series = later()
    series.values[place("flow"), fault()] = habits().highest[place("flow")]
    found = only(events(series))
    assert (found.kind, found.sensors) == (Fault.LIMIT, ("flow",))


@pytest.mark.parametrize("sensor", SENSORS)
def test_a_drifting_sensor_is_named_and_its_neighbours_are_not(sensor: str) -> None:
    series = later()
    series.values[place(sensor), fault()] += 5 * deviation(sensor) * np.minimum(np.arange(LASTS) / 96, 1)
    found = [each for each in events(series) if each.kind in (Fault.DRIFT, Fault.SHIFT)]
    assert only(found).sensors == (sensor,)


@pytest.mark.parametrize("ahead", [0, 30, 60])
def test_a_drift_of_all_sensors_is_one_shift_also_where_one_of_them_begins_earlier(ahead: int) -> None:
    series = later()
    for number, sensor in enumerate(plant()[0]):
        start = 0 if sensor == "flow" else ahead
        ramp = np.clip((np.arange(LASTS) - start) / 96, 0, 1)
        series.values[place(sensor), fault()] += (-1) ** number * 5 * deviation(sensor) * ramp
    found = only(events(series))
    assert found.kind == Fault.SHIFT
    assert "flow" in found.sensors
    assert len(found.sensors) >= 3


def test_a_drift_after_another_one_has_ended_is_an_event_of_its_own() -> None:
    series = later()
    for sensor, start, lasts in (("flow", 0, 90), ("tank_level", 200, 120)):
        steps = np.arange(START + start, START + start + lasts)
        series.values[place(sensor), steps] += 5 * deviation(sensor) * np.minimum(np.arange(lasts) / 20, 1)
    found = [each for each in events(series) if each.kind in (Fault.DRIFT, Fault.SHIFT)]
    assert [(each.kind, each.sensors) for each in found] == [
        (Fault.DRIFT, ("flow",)),
        (Fault.DRIFT, ("tank_level",)),
    ]


def test_spikes_and_chatter_are_told_apart() -> None:
    for kind, jump in (
        (Fault.SPIKING, 6 * (np.random.default_rng(1).random(LASTS) < 0.1)),
        (Fault.CHATTER, 2 * (-1.0) ** np.arange(LASTS)),
    ):
        series = later()
        series.values[place("tank_level"), fault()] += jump * deviation("tank_level")
        found = only([each for each in events(series) if each.kind != Fault.DRIFT])
        assert (found.kind, found.sensors) == (kind, ("tank_level",))


def test_a_stuttering_clock_is_found_by_its_stamps_alone() -> None:
    series = later()
    assert series.offset is not None
    series.offset[place("speed"), fault()] = np.random.default_rng(2).uniform(-0.5, 0.5, LASTS)
    found = only(events(series))
    assert (found.kind, found.sensors) == (Fault.CLOCK, ("speed",))
    assert events(replace(series, offset=None)) == []


def test_a_silent_sensor_is_named_since_its_first_missing_step() -> None:
    series = later()
    series.observed[place("vibration"), fault()] = False
    found = only(events(series))
    assert (found.kind, found.sensors) == (Fault.SILENT, ("vibration",))
    assert step_of(found.since_ms, series) == START


@pytest.mark.parametrize("stagger", [0, 1])
def test_an_outage_of_all_eight_sensors_is_one_event(stagger: int) -> None:
    series = later()
    for number, row in enumerate(series.observed):
        row[START + stagger * (number % 2) :] = False
    found = only(events(series))
    assert (found.kind, found.sensors) == (Fault.OUTAGE, plant()[0])


def test_an_outage_whose_sensors_fall_silent_within_some_steps_is_one_event() -> None:
    series = later()
    for row, start in zip(series.observed, (0, 4, 1, 7, 10, 2, 5, 12), strict=True):
        row[START + start :] = False
    found = only(events(series))
    assert (found.kind, found.sensors) == (Fault.OUTAGE, plant()[0])
    assert step_of(found.since_ms, series) == START


def test_two_silences_hours_apart_are_two_events() -> None:
    series = later()
    series.observed[place("flow"), START:] = False
    series.observed[place("speed"), START + 100 :] = False
    assert [each.kind for each in events(series)] == [Fault.SILENT, Fault.SILENT]


def test_gaps_that_begin_more_often_than_they_used_to_are_an_event() -> None:
    series = later()
    series.observed[place("flow"), fault()] = np.random.default_rng(3).random(LASTS) > 0.4
    found = only([each for each in events(series) if each.kind != Fault.DRIFT])
    assert (found.kind, found.sensors) == (Fault.MISSINGNESS, ("flow",))


def test_a_fault_that_lasts_is_reported_once() -> None:
    whole = plant()[1][0].part(LEARNED, 11 * 1440)
    series = replace(whole, values=whole.values.copy())
    series.values[place("speed"), START:] = series.values[place("speed"), START]
    assert [each.kind for each in events(series)] == [Fault.FROZEN]


@pytest.mark.parametrize("cut", [0, 1, 37, 75])
def test_a_restart_finds_the_same_events_to_the_bit(cut: int) -> None:
    series = faulty()
    whole = [each for each in detect(habits(), series, 0) if step_of(each.ts_ms, series) >= MEMORY + cut]
    assert whole
    again = detect(habits(), series.part(cut, series.steps), MEMORY)
    assert again == whole


@pytest.mark.parametrize("end", [START + 20, START + 96, START + 200])
def test_an_event_depends_on_no_later_reading(end: int) -> None:
    series = faulty()
    until_ms = (series.first + end) * STEP_MS
    assert detect(habits(), series.part(0, end)) == [each for each in detect(habits(), series) if each.ts_ms < until_ms]


def faulty() -> GridSeries:
    """Faults of many kinds at once."""
    series, random = later(), np.random.default_rng(4)
    assert series.offset is not None
    series.values[place("flow"), fault()] += 5 * deviation("flow") * np.minimum(np.arange(LASTS) / 96, 1)
    series.values[place("speed"), START + 50 :] = series.values[place("speed"), START + 50]
    series.values[place("tank_level"), fault()] += 3 * deviation("tank_level") * (-1.0) ** np.arange(LASTS)
    series.observed[place("vibration"), START + 20 : START + 60] = False
    series.observed[place("motor_current"), fault()] = random.random(LASTS) > 0.4
    series.offset[place("suction_pressure"), fault()] = random.uniform(-0.5, 0.5, LASTS)
    return series


def test_series_of_other_sensors_steps_or_groups_are_refused() -> None:
    series = later()
    with pytest.raises(ValueError, match="expected 8 sensors in steps of 60000 ms, found 7 sensors"):
        detect(habits(), replace(series, values=series.values[:7], observed=series.observed[:7]))
    with pytest.raises(ValueError, match="found 8 sensors in steps of 1000 ms"):
        detect(habits(), replace(series, step_ms=1000))
    with pytest.raises(ValueError, match="found 'pump-9'"):
        detect(habits(), replace(series, group="pump-9"))


@pytest.mark.parametrize("value", [1e308, -1e308, 1e-300])
def test_readings_of_any_size_are_judged_without_a_warning(value: float) -> None:
    series = later()
    series.values[place("flow"), START + 3] = value
    assert all("flow" in each.sensors for each in events(series))


def test_a_series_without_a_reading_or_a_step_has_no_event_that_was_not_there() -> None:
    series = later()
    nothing = replace(series, observed=np.zeros(series.observed.shape, np.bool_))
    assert events(nothing) == []
    assert detect(habits(), series.part(0, 0)) == []
