"""Intervals of states and directions."""

import numpy as np

from glaim_stream.form.kinds import Kind, by_kind

FREE = np.array(-np.inf), np.array(np.inf)
FIRST = np.array(0)


def test_an_interval_of_a_direction_that_reaches_north_holds_every_direction() -> None:
    lower, upper = np.array([-10.0, 340.0, 0.0, 100.0, np.nan]), np.array([20.0, 365.0, 30.0, 140.0, np.nan])
    value = (lower + upper) / 2
    found = by_kind(lower, upper, value, [Kind.ANGLE], FIRST, *FREE)
    np.testing.assert_array_equal(found, [[0, 0, 0, 100, np.nan], [360, 360, 360, 140, np.nan]])
    others = by_kind(lower, upper, value, [Kind.NUMBER], FIRST, *FREE)
    np.testing.assert_array_equal(others, [lower, upper])


def test_an_interval_that_reaches_the_ends_of_minus_180_to_180_holds_every_direction() -> None:
    value = np.array([-170.0, 170.0, 0.0, -100.0])
    half = np.array([20.0, 20.0, 30.0, 40.0])
    found = by_kind(value - half, value + half, value, [Kind.ANGLE], FIRST, np.array(-180.0), np.array(180.0))
    assert [each.tolist() for each in found] == [[-180, -180, -30, -140], [180, 180, 30, -60]]
    free = by_kind(value - half, value + half, value, [Kind.ANGLE], FIRST, *FREE)
    assert [each[[0, 3]].tolist() for each in free] == [[-180, -140], [180, -60]], "no limit is needed below 0"


def test_no_interval_of_a_direction_crosses_the_sensor_s_limits() -> None:
    ends = np.array([330.0]), np.array([350.0]), np.array([340.0])
    found = by_kind(*ends, [Kind.ANGLE], FIRST, np.array([10.0]), np.array([350.0]))
    assert [each.tolist() for each in found] == [[10.0], [350.0]]


def test_an_interval_of_a_state_ends_at_the_next_one_or_well_before_it() -> None:
    value = np.array([0.0, 0.0, 1.0, 1.0, 0.0])
    half = np.array([0.3, 0.93, 0.3, 0.93, np.nan])
    lower, upper = value - half, value + half
    limits = np.zeros(5), np.ones(5)
    found = by_kind(np.maximum(lower, 0.0), np.minimum(upper, 1.0), value, [Kind.STATE], FIRST, *limits)
    np.testing.assert_array_equal(found, [[0.0, 0.0, 0.7, 0.0, np.nan], [0.3, 1.0, 1.0, 1.0, np.nan]])
    unknown = by_kind(lower, upper, value, [Kind.STATE], FIRST, *FREE)
    np.testing.assert_array_equal(unknown, [lower, upper])
