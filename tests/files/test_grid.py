"""Steps are found from times that are uneven, out of order, repeated or absent."""

import numpy as np
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import NO_TIME
from glaim_stream.files.grid import Grid, step_of
from glaim_stream.files.series import Cells, ReadingColumn, series_of

MINUTE = 60_000


def minutes(*places: float) -> np.ndarray:
    return 1_700_000_000_000 + np.array([round(place * MINUTE) for place in places], np.int64)


def test_missing_steps_stay_missing():
    grid = Grid.of(minutes(0, 1, 2, 5, 6))
    assert (grid.step_ms, grid.steps, grid.empty) == (MINUTE, 7, 2)
    assert grid.rows.tolist() == [0, 1, 2, 5, 6]


def test_rows_out_of_order_repeated_and_without_time_keep_their_places():
    times = minutes(3, 0, 1, 1, 2)
    grid = Grid.of(np.append(times, NO_TIME))
    assert grid.rows.tolist() == [3, 0, 1, 1, 2, -1]
    assert grid.shared == 1


@pytest.mark.parametrize("adds_up", [False, True])
def test_each_stamp_with_jitter_has_its_own_step(adds_up):
    rng = np.random.default_rng(1)
    if adds_up:
        times = np.cumsum(rng.integers(59, 62, 20_000)) * 1000
    else:
        times = np.arange(20_000) * MINUTE + rng.integers(-500, 500, 20_000)
    grid = Grid.of(times.astype(np.int64))
    assert grid.step_ms == MINUTE
    assert np.array_equal(grid.rows, np.arange(20_000))


def test_two_readings_in_a_step_share_it():
    times = np.sort(np.concatenate([np.arange(100) * MINUTE, np.arange(100) * MINUTE + 1000]))
    grid = Grid.of(times)
    assert (grid.step_ms, grid.steps) == (MINUTE, 100)
    assert np.array_equal(grid.rows, np.repeat(np.arange(100), 2))


def test_many_missing_rows_do_not_double_the_step():
    rng = np.random.default_rng(2)
    place = np.flatnonzero(rng.random(5_000) < 0.3)
    assert Grid.of(place * MINUTE).step_ms == MINUTE


@pytest.mark.parametrize("others", [20, 150, 270])
@pytest.mark.parametrize(("usual", "other"), [(10, 15), (10, 12), (15, 20), (60, 90), (10, 15.5)])
def test_a_change_of_the_step_gives_one_of_the_two_and_none_between(usual, other, others):
    differences = np.repeat([usual, other], [300 - others, others])
    assert step_of([minutes(0, *np.cumsum(differences))]) in (usual * MINUTE, other * MINUTE)


def test_groups_of_different_steps_have_one_of_the_two():
    assert step_of([10 * np.arange(300) * MINUTE, 15 * np.arange(300) * MINUTE]) == 10 * MINUTE


@pytest.mark.parametrize(("later_s", "step_s"), [(26, 30), (22, 20)])
def test_two_loggers_that_report_seconds_after_each_other_have_their_mean_step(later_s, step_s):
    seconds = 60 * np.arange(300)[:, None] + np.array([0, later_s])
    assert step_of([seconds.ravel() * 1000]) == step_s * 1000


@pytest.mark.parametrize("jitter", [0.05, 0.1, 0.2])
def test_stamps_with_jitter_have_the_mean_step(jitter):
    rng = np.random.default_rng(3)
    times = (np.arange(2_000) + rng.uniform(-jitter, jitter, 2_000)) * 10 * MINUTE
    assert step_of([np.sort(times.astype(np.int64))]) == 10 * MINUTE


@pytest.mark.parametrize(
    ("days", "step_days"),
    [([0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 14, 15], 1), ([0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334], 30)],
)
def test_working_days_and_months_have_a_step(days, step_days):
    grid = Grid.of(np.array(days, np.int64) * 86_400_000)
    assert round(grid.step_ms / 86_400_000) == step_days
    assert len(np.unique(grid.rows)) == len(days)


def test_three_readings_a_day_are_hours_apart():
    times = np.array([day * 24 + hour for day in range(50) for hour in (8, 9, 10)], np.int64) * 3_600_000
    assert step_of([times]) == 3_600_000


def test_groups_share_a_step_whatever_their_offsets():
    assert step_of([minutes(0, 1, 2), minutes(0.5, 1.5, 2.5)]) == MINUTE


@pytest.mark.parametrize("jitter_s", [0, 5])
def test_rows_keep_a_step_each_after_a_clock_restarted_halfway_between_two(jitter_s):
    rng = np.random.default_rng(4)
    times = 10 * np.arange(200) * MINUTE + rng.integers(-jitter_s, jitter_s + 1, 200) * 1000
    times[100:] += 5 * MINUTE
    grid = Grid.of(times)
    assert (grid.step_ms, grid.shared) == (10 * MINUTE, 0)
    assert grid.empty <= 1


def test_a_stated_step_holds():
    grid = Grid.of(minutes(0, 1, 2, 3), step_ms=2 * MINUTE)
    assert grid.rows.tolist() == [0, 0, 1, 1]


def test_many_rows_a_step_share_it():
    times = np.arange(2_000) * 7 * MINUTE
    grid = Grid.of(times, step_ms=60 * MINUTE)
    assert np.abs(grid.rows - times / 3_600_000).max() <= 1


@pytest.mark.parametrize(
    ("times", "step_ms", "message"),
    [
        ([NO_TIME, NO_TIME], None, "found none in 2 rows"),
        ([5, 5], None, "two different times"),
        ([0, MINUTE], 0, "at least 1 ms"),
        ([0, 1000, 2000, 3000, 10**12], None, "1970-01-01T00:00:00Z to 2001-09-09"),
    ],
)
def test_what_is_no_grid_is_a_sentence(times, step_ms, message):
    with pytest.raises(SettingsError, match=message):
        Grid.of(np.array(times, np.int64), step_ms)


def test_the_latest_reading_of_a_step_counts_in_whichever_row_it_stands():
    times = np.append(minutes(0, 1, 1.001, 3), NO_TIME)
    values, none = np.array([1.0, 2.0, 3.0, np.nan, 9.0]), np.zeros(5, np.int64)
    for order in ([0, 1, 2, 3, 4], [3, 2, 4, 1, 0]):
        hole = np.isnan(values[order])
        column = ReadingColumn(0, "a", none, none, values[order], hole, np.zeros_like(hole), np.zeros_like(hole))
        found = series_of(Cells(times[order], ("",), ("a",), (column,)), step_ms=60_000)
        assert np.array_equal(found.values[0], [[1.0, 3.0, np.nan, np.nan]], equal_nan=True)
        assert found.step.tolist() == [[0, 1, 1, 3, -1][row] for row in order]
