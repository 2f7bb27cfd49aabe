"""Times of a wrong clock among those of a file."""

import numpy as np
import pytest
from numpy.typing import NDArray

from glaim_stream.core.stray_times import stray_times

MINUTE_MS, YEAR_MS = 60_000, 31_557_600_000
START_MS = 1_735_689_600_000  # 2025
BODY = START_MS + MINUTE_MS * np.arange(10_000)


@pytest.mark.parametrize(
    "wrong",
    [
        np.array([0]),
        np.array([START_MS // 1000]),  # seconds, read as milliseconds
        np.array([START_MS - 24 * YEAR_MS, START_MS - 55 * YEAR_MS, START_MS + 74 * YEAR_MS]),
        np.arange(400) * MINUTE_MS,  # a clock that runs on from 1970
    ],
)
def test_times_far_from_the_others_are_found(wrong: NDArray[np.int64]) -> None:
    times = np.concatenate([BODY, wrong])
    order = np.random.default_rng(0).permutation(len(times))
    assert np.array_equal(stray_times(times[order]), (np.arange(len(times)) >= len(BODY))[order])


@pytest.mark.parametrize(
    "times",
    [
        BODY,
        np.concatenate([BODY, BODY + YEAR_MS]),  # two campaigns
        np.concatenate([BODY, BODY[:1000] - YEAR_MS]),  # a tenth of them: no clock is to blame
        np.concatenate([BODY, [BODY[-1] + 8_000 * MINUTE_MS]]),  # a gap shorter than the file
        np.full(100, START_MS),
        BODY[:3],
        np.empty(0, np.int64),
        np.array([0, START_MS]),
    ],
)
def test_other_times_are_kept(times: NDArray[np.int64]) -> None:
    assert not stray_times(times.astype(np.int64)).any()
