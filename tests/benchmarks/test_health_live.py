"""A series that is scored goes through the windows of a worker, which finds its faults after the warm-up alone."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.health_live import LOOK_BACK, found_live
from glaim_stream.health import Event, Fault, GridSeries
from tests.health.plant import LEARNED, habits, place, plant, step_of

START = LOOK_BACK + 40
SENSORS = tuple(name.upper() for name in plant()[0])


def later() -> GridSeries:
    part = plant()[1][0].part(LEARNED, LEARNED + START + 200)
    return replace(part, values=part.values.copy(), observed=part.observed.copy())


def found(series: GridSeries, warm_up: int = LOOK_BACK) -> list[Event]:
    return found_live(habits(), series, warm_up, SENSORS)


def test_a_fault_is_one_event_with_the_names_that_were_given() -> None:
    series = later()
    series.values[place("flow"), START:] = series.values[place("flow"), START]
    (event,) = found(series)
    assert (event.kind, event.sensors, event.group) == (Fault.FROZEN, ("FLOW",), series.group)
    assert step_of(event.since_ms, series) == START
    assert event.score > 1
    assert found(later()) == []


@pytest.mark.slow  # quicker: a fault is one event, above
def test_events_of_the_warm_up_do_not_count_and_a_longer_look_back_changes_none() -> None:
    series = later()
    series.values[place("flow"), START:] = series.values[place("flow"), START]
    series.observed[place("speed"), START + 90 :] = False
    events = found(series)
    assert len(events) == 2
    assert found(series, START + 80) == events[1:]
    assert found(series.part(16, series.steps), LOOK_BACK) == events
    assert found(replace(series, observed=np.zeros(series.observed.shape, np.bool_))) == []
