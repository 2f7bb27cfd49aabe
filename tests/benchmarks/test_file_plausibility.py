"""Each pass of the benchmark hides the same readings, and only spikes make a difference."""

from __future__ import annotations

import numpy as np

from benchmarks.file_plausibility import Truth, measure
from glaim_stream.tables.fill import Group
from tests.tables.test_fill import series


def test_spikes_are_found_and_cost_little_with_plausibility_and_much_without() -> None:
    values = series(1500, sensors=4)
    group = Group("g", 60_000 * np.arange(1500, dtype=np.int64), values)
    found = measure(Truth(("a", "b", "c", "d"), (group,), values.std(axis=1)), seed=2)
    assert 0.06 < found["hidden"] / values.size < 0.1
    assert found["readings"] + found["hidden"] == values.size
    assert 0.005 < found["spikes"] / found["readings"] < 0.015
    assert found["spikes_found"] >= 0.9 * found["spikes"]
    assert found["clean_on"] < 1.01 * found["clean_off"]
    assert found["spiked_on"] < 1.1 * found["clean_on"]
    assert found["spiked_off"] > 100 * found["clean_off"]
