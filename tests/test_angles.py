"""Directions in degrees."""

from __future__ import annotations

import numpy as np

from glaim_stream.angles import around, differences


def test_a_difference_goes_the_shorter_way() -> None:
    found = around(np.array([0.0, 10.0, -10.0, 350.0, -350.0, 180.0, 725.0, np.nan]))
    np.testing.assert_array_equal(found, [0.0, 10.0, -10.0, -10.0, 10.0, -180.0, 5.0, np.nan])


def test_only_differences_of_directions_go_the_shorter_way() -> None:
    filled, truth = np.array([[359.0, 359.0], [1.0, 1.0]]), np.array([[1.0], [359.0]])
    assert differences(filled, truth, np.array([True, False])).tolist() == [[-2.0, 358.0], [2.0, -358.0]]
    assert differences(filled, truth, np.zeros(2, np.bool_)).tolist() == [[358.0, 358.0], [-358.0, -358.0]]
