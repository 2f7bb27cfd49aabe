"""Readings on a grid: jitter stays in its step, every group has all sensors, and what shares a step is counted."""

import numpy as np
import pytest

from glaim_stream.commands.gridded import gridded
from glaim_stream.core.errors import SettingsError

CELLS = [("a", "x"), ("a", "y"), ("b", "x")]


def test_stamps_that_jitter_around_a_full_minute_keep_their_steps() -> None:
    random = np.random.default_rng(0)
    time_ms = 60_000 * np.arange(1000, 1200) + random.integers(-5_000, 5_000, 200)
    found = gridded(CELLS[:1], np.zeros(200, np.int32), time_ms, np.arange(200.0), 60_000)
    series = found.groups[0]
    assert (found.shared, series.steps, bool(series.observed.all())) == (0, 200, True)
    np.testing.assert_array_equal(series.values[0], np.arange(200.0))
    assert series.offset is not None
    assert 0.02 < np.abs(series.offset).mean() < 0.06


def test_sensors_that_a_group_lacks_are_never_observed() -> None:
    found = gridded(CELLS, np.arange(6) % 3, np.repeat([0, 1000], 3), np.arange(6.0), 1000)
    assert (found.sensors, [each.group for each in found.groups]) == (("x", "y"), ["a", "b"])
    assert found.groups[1].observed.tolist() == [[True, True], [False, False]]
    assert found.groups[0].values.tolist() == [[0.0, 3.0], [1.0, 4.0]]


def test_the_latest_reading_of_a_step_counts_and_the_others_are_counted() -> None:
    found = gridded(CELLS[:1], np.zeros(4, np.int32), np.array([1010, 0, 1000, 2000]), np.array([5.0, 1, 2, 3]), 1000)
    assert found.groups[0].values.tolist() == [[1.0, 5.0, 3.0]]
    assert found.shared == 1


def test_nothing_and_too_much_are_refused() -> None:
    with pytest.raises(SettingsError, match="expected readings, found none"):
        gridded(CELLS, np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0), 1000)
    with pytest.raises(SettingsError, match="more than 200,000,000 cells"):
        gridded(
            [("a", str(sensor)) for sensor in range(12)], np.arange(2), np.array([0, 19 * 10**9]), np.zeros(2), 1000
        )
    with pytest.raises(SettingsError, match="1,000,000,000 steps of 1,000 ms"):
        gridded(CELLS, np.zeros(2, np.int32), np.array([0, 10**12]), np.zeros(2), 1000)
