"""Runs, silences and sliding sums, against loops."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from glaim_stream.health.runs import LONGEST, began_together, gaps_begun, runs_of, silence
from glaim_stream.health.series import GridSeries, onsets, sliding_sum

Bools = NDArray[np.bool_]


def series(values: NDArray[np.float64], observed: Bools) -> GridSeries:
    return GridSeries("", 0, 1000, values, observed)


@given(
    arrays(np.int64, (1, 60), elements=st.integers(0, 2)),
    arrays(np.bool_, (1, 60), elements=st.sampled_from([True, True, True, False])),
)
@settings(max_examples=60, deadline=None)
def test_runs_and_silences_are_those_of_a_loop(values: NDArray[np.int64], observed: Bools) -> None:
    found = runs_of(series(values.astype(np.float64), observed))
    age = silence(series(values.astype(np.float64), observed))
    length, last, start, quiet = 0, None, 0, 0
    for step in range(60):
        quiet += 1
        if observed[0, step]:
            quiet = 0
            if values[0, step] == last:
                length += 1
            else:
                length, start = 1, step
            last = values[0, step]
        assert found.length[0, step] == length
        if length:
            assert (found.start[0, step], found.value[0, step]) == (start, last)
        assert age[0, step] == quiet


def test_a_run_that_lasts_longer_than_what_is_looked_at_counts_as_that_long() -> None:
    values, seen = np.ones((1, 1000)), np.ones((1, 1000), np.bool_)
    found = runs_of(series(values, seen))
    assert found.length.max() == LONGEST
    assert found.start[0, -1] == 1000 - LONGEST


def test_gaps_count_by_their_beginnings() -> None:
    seen = np.array([[True, False, False, True, False, True, True, False]])
    assert gaps_begun(series(np.zeros(seen.shape), seen), 4).tolist() == [[0, 1, 1, 1, 2, 1, 1, 2]]


def test_what_began_within_two_steps_began_together() -> None:
    start = np.array([10, 50, 12, 14, 53, 10])
    found = began_together(start, np.array([True, True, True, True, True, False]))
    assert [each.tolist() for each in found] == [[0, 2, 3], [1], [4]]


@given(st.integers(1, 50), st.integers(0, 60))
@settings(max_examples=40, deadline=None)
def test_sliding_sums_have_the_same_bits_wherever_the_series_begins(steps: int, cut: int) -> None:
    values = np.random.default_rng(cut).standard_t(3, (2, 200)) * 1e3
    whole, part = sliding_sum(values, steps), sliding_sum(values[:, cut:], steps)
    np.testing.assert_array_equal(whole[:, cut + steps :], part[:, steps:])
    np.testing.assert_allclose(whole[:, -1], values[:, -steps:].sum(axis=1), atol=steps / 65536)


def test_an_alarm_begins_after_a_quiet_time_alone() -> None:
    alarm = np.array([[0, 1, 1, 0, 1, 0, 0, 0, 1]], np.bool_)
    assert np.flatnonzero(onsets(alarm, 3)[0]).tolist() == [1, 8]
