"""Directions in degrees."""

from __future__ import annotations

import numpy as np

from glaim_stream.angles import around


def test_a_difference_goes_the_shorter_way() -> None:
    found = around(np.array([0.0, 10.0, -10.0, 350.0, -350.0, 180.0, 725.0, np.nan]))
    np.testing.assert_array_equal(found, [0.0, 10.0, -10.0, -10.0, 10.0, -180.0, 5.0, np.nan])
