"""Directions in degrees."""

from __future__ import annotations

import numpy as np

from glaim_stream.angles import around, full_circles

FREE = np.array(-np.inf), np.array(np.inf)


def test_a_difference_goes_the_shorter_way() -> None:
    found = around(np.array([0.0, 10.0, -10.0, 350.0, -350.0, 180.0, 725.0, np.nan]))
    np.testing.assert_array_equal(found, [0.0, 10.0, -10.0, -10.0, 10.0, -180.0, 5.0, np.nan])


def test_an_interval_of_a_direction_that_reaches_north_holds_every_direction() -> None:
    lower, upper = np.array([-10.0, 340.0, 0.0, 100.0, np.nan]), np.array([20.0, 365.0, 30.0, 140.0, np.nan])
    found = full_circles(lower, upper, np.ones(5, np.bool_), *FREE)
    np.testing.assert_array_equal(found, [[0, 0, 0, 100, np.nan], [360, 360, 360, 140, np.nan]])
    others = full_circles(lower, upper, np.zeros(5, np.bool_), *FREE)
    np.testing.assert_array_equal(others, [lower, upper])


def test_no_interval_of_a_direction_crosses_the_sensor_s_limits() -> None:
    found = full_circles(np.array([330.0]), np.array([350.0]), np.array([True]), np.array([10.0]), np.array([350.0]))
    assert [each.tolist() for each in found] == [[10.0], [350.0]]
