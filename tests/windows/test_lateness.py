"""The clock of tools that only read: it calls late what the windows call late."""

import numpy as np
import pytest

from glaim_stream.core.catalogue import parse_catalogue
from glaim_stream.core.readings import Readings
from glaim_stream.windows.history import Lateness
from glaim_stream.windows.partition import PartitionWindows

MODEL = {"step_s": 60, "revise_after": 2, "max_gap": 3, "sensors": [{"id": "a"}]}
CATALOGUE = parse_catalogue(
    {
        "models": [
            {**MODEL, "name": "x", "window": 8, "lateness_s": 90},
            {**MODEL, "name": "y", "window": 16, "lateness_s": 0, "step_s": 10},
        ],
        "groups": [{"model": "x", "ids": ["g"]}, {"model": "y", "ids": ["h"]}],
    },
    source="test",
)


@pytest.mark.parametrize("seed", range(5))
def test_a_reading_is_late_where_the_windows_call_it_late(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 2_000
    time_ms = 1_700_000_000_000 + np.arange(n) * 4_000 - rng.choice([0, 0, 300_000, 900_000, 1_600_000_000_000], n)
    which = rng.integers(0, 2, n).astype(np.int32)
    readings = Readings(
        which, which, np.zeros(n, np.int32), time_ms, np.ones(n), np.arange(n), np.zeros(n, np.int32),
        np.zeros(n, np.int8), time_ms + rng.integers(-60_000, 60_000, n), np.zeros(n, np.bool_),
    )  # fmt: skip
    windows, lateness = PartitionWindows(CATALOGUE), Lateness(CATALOGUE)
    found = 0
    for start in range(0, n, 137):
        part = readings.where(np.arange(start, min(n, start + 137)))
        late = windows.feed(part, arrival_ms=0).rejects
        assert np.array_equal(sorted(each.offset for each in late), part.offset[lateness.too_late(part)])
        found += len(late)
    assert 0 < found < n
