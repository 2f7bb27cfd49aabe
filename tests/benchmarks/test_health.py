"""The faults of the benchmark are in the stated sensors and steps alone, and simple rules find what they should."""

import numpy as np
import pytest

from benchmarks.health import LASTS, SimpleRules, inject
from glaim_stream.health import MEMORY, GridSeries

SENSORS = 9
FAULTS = ("frozen", "limit", "spiking", "drift", "chatter", "clock", "silent", "outage", "missingness", "shift")


def clean() -> GridSeries:
    values = np.random.default_rng(0).normal(size=(SENSORS, MEMORY + LASTS))
    return GridSeries("", 0, 1000, values, np.ones(values.shape, np.bool_), np.zeros(values.shape))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_in_its_sensors_and_steps_alone(fault: str) -> None:
    series = clean()
    made = inject(fault, series, np.ones(SENSORS), np.full(SENSORS, 4.0), np.random.default_rng(1))
    assert made.start == MEMORY
    assert len(made.sensors) == {"outage": 8, "shift": SENSORS}.get(fault, 1)
    assert made.series.offset is not None
    changed = (made.series.values != series.values) | ~made.series.observed | (made.series.offset != 0)
    assert np.flatnonzero(changed.any(axis=1)).tolist() == list(made.sensors)
    assert not changed[:, :MEMORY].any()
    assert changed[list(made.sensors), MEMORY:].mean() > 0.05
    np.testing.assert_array_equal(series.values, clean().values)


def test_simple_rules_alarm_at_values_jumps_repeats_and_silences_beyond_what_was_seen() -> None:
    series = clean()
    rules = SimpleRules.learned([series])
    assert not rules.alarms(series).any()
    for fault, least in (("frozen", 100), ("silent", 100), ("chatter", 0), ("limit", 1)):
        made = inject(fault, series, np.full(SENSORS, 3.0), np.full(SENSORS, 9.0), np.random.default_rng(1))
        alarms = rules.alarms(made.series)
        assert alarms[list(made.sensors)].sum() >= least
        assert not np.delete(alarms, made.sensors, axis=0).any()
