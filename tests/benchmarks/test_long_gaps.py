"""The benchmark compares what a fill expects of a long gap with the truth that was taken away."""

import numpy as np
import pytest

from benchmarks.long_gaps import Truth, blocks, measure, summary
from glaim_stream.tables import Group
from tests.tables.test_fill import series


@pytest.mark.slow  # quicker: tests/tables, which has the same fill
def test_a_sensor_that_follows_the_others_is_filled_with_the_error_that_is_expected() -> None:
    values = series(3000, sensors=3)
    group = Group("g", 60_000 * np.arange(3000, dtype=np.int64), values)
    found = measure(Truth(("a", "b", "c"), (group,), values.std(axis=1)))
    assert len(found) == 9
    figures = summary(found)
    assert figures["filled"] == 9
    assert figures["error"] < 0.3 * figures["mean_error"]
    assert 0.2 < figures["true_to_expected_p50"] < 5
    assert figures["held"] > 0.7


@pytest.mark.slow  # quicker: tests/tables/test_long_gaps.py
def test_blocks_of_a_sensor_that_follows_the_others_have_less_error_than_the_line_and_no_jumps() -> None:
    values = series(1500, sensors=3)
    found = blocks(
        Truth(("a", "b", "c"), (Group("g", 60_000 * np.arange(1500), values),), values.std(axis=1)), 60, False
    )
    assert found["ratio"] < 0.7
    assert found["worst"] <= 1.0
    assert found["jump"] <= 1.0
    assert found["held"] > 0.7
