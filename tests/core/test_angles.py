"""Directions in degrees."""

import numpy as np

from glaim_stream.core.angles import are_circles, around, differences, on_circle


def test_a_difference_goes_the_shorter_way() -> None:
    found = around(np.array([0.0, 10.0, -10.0, 350.0, -350.0, 180.0, -180.0, 725.0, np.nan]))
    np.testing.assert_array_equal(found, [0.0, 10.0, -10.0, -10.0, 10.0, 180.0, -180.0, 5.0, np.nan])


def test_a_circle_is_from_0_to_360_or_from_minus_180_to_180() -> None:
    least, most = np.array([0.0, 2.0, -180.0, -178.5, 0.0, -90.0]), np.array([360.0, 357.0, 180.0, 179.0, 180.0, 270.0])
    assert are_circles(least, most).tolist() == [True, True, True, True, False, False]


def test_a_direction_beyond_the_end_of_its_circle_is_the_same_from_its_start_on() -> None:
    degrees = np.array([0.0, 359.0, 360.0, 365.0, -10.0])
    assert on_circle(degrees, np.zeros(5, np.bool_)).tolist() == [0.0, 359.0, 0.0, 5.0, 350.0]
    assert on_circle(degrees, np.ones(5, np.bool_)).tolist() == [0.0, -1.0, 0.0, 5.0, -10.0]
    assert on_circle(np.array([-180.0, 180.0, 185.0, -181.0]), np.ones(4, np.bool_)).tolist() == [-180, -180, -175, 179]


def test_only_differences_of_directions_go_the_shorter_way() -> None:
    filled, truth = np.array([[359.0, 359.0], [1.0, 1.0]]), np.array([[1.0], [359.0]])
    assert differences(filled, truth, np.array([True, False])).tolist() == [[-2.0, 358.0], [2.0, -358.0]]
    assert differences(filled, truth, np.zeros(2, np.bool_)).tolist() == [[358.0, 358.0], [-358.0, -358.0]]
