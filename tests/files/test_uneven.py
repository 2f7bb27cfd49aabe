"""Rows that follow another step than the table's are told from stamps that jitter around it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from glaim_stream.core.times import NO_TIME
from glaim_stream.files.grid import Grid
from glaim_stream.files.series import Uneven, uneven

MINUTE = 60_000
STEP = 10 * MINUTE
EVEN = STEP * np.arange(300)
RNG = np.random.default_rng(0)


def found_in(*times_ms: NDArray[np.int64]) -> Uneven | None:
    return uneven([Grid.of(each, STEP) for each in times_ms], times_ms)


@pytest.mark.parametrize(
    "times",
    [
        EVEN,
        EVEN[::-1],
        EVEN[RNG.random(300) < 0.5],  # half of the rows are missing
        np.concatenate([EVEN, EVEN + 30 * 86_400_000 + 3 * MINUTE]),  # a month of silence, and a clock set anew
        EVEN + RNG.integers(-3 * MINUTE // 2, 3 * MINUTE // 2, 300),
        np.sort(np.concatenate([EVEN, EVEN + MINUTE])),  # two rows a step
        np.append(EVEN, NO_TIME),
        EVEN[:1],
        np.full(5, NO_TIME),
    ],
)
def test_missing_rows_outages_and_jitter_fit_the_step(times: NDArray[np.int64]) -> None:
    grid = Grid.of(times, STEP) if (times != NO_TIME).any() else Grid(0, STEP, 1, np.full(len(times), -1))
    assert uneven([grid], [times]) is None


@pytest.mark.parametrize(
    ("distances", "others"),
    [
        (np.repeat([10, 15], 150), 150),
        (np.repeat([10, 12], 150), 150),
        (np.repeat([10, 15], [280, 20]), 20),
        (np.tile([10, 15], 150), 150),
        (np.random.default_rng(0).choice([10, 10, 10, 15], 300), 91),
        (np.random.default_rng(0).exponential(10, 300), 150),
    ],
)
def test_another_step_does_not_fit(distances: NDArray[np.float64], others: int) -> None:
    found = found_in(np.concatenate([[0], np.rint(np.cumsum(distances) * MINUTE).astype(np.int64)]))
    assert found is not None
    assert (found.group, found.step_ms) == (0, STEP)
    assert others <= found.count <= 1.15 * others, "some of their neighbours count too"


def test_the_group_that_fits_least_is_named() -> None:
    found = found_in(EVEN, EVEN * 3 // 2, EVEN * 2)
    assert found == Uneven(1, 299, 299, STEP)
