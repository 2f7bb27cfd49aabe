"""Rows of a wrong clock are found within their group."""

import numpy as np

from glaim_stream.core.times import NO_TIME
from glaim_stream.files.series import StrayRows, counted, stray_rows

MINUTE_MS, YEAR_MS = 60_000, 31_557_600_000
START_MS = 1_735_689_600_000  # 2025
BODY = START_MS + MINUTE_MS * np.arange(1_000)


def test_rows_of_a_wrong_clock_are_found_and_counted() -> None:
    times = np.concatenate([BODY[:500], [NO_TIME, 0], BODY[500:], [NO_TIME, MINUTE_MS]])
    stray = stray_rows(times, [np.arange(len(times))])
    assert np.flatnonzero(stray).tolist() == [501, 1003]
    assert counted(times, stray) == StrayRows(2, 501, 0)


def test_half_a_year_of_silence_is_no_wrong_clock() -> None:
    times = np.concatenate([BODY[:500], BODY[500:] + YEAR_MS // 2])
    assert not stray_rows(times, [np.arange(len(times))]).any()


def test_a_small_group_of_another_year_is_no_wrong_clock() -> None:
    times = np.concatenate([BODY, BODY[:30] - 2 * YEAR_MS])
    assert not stray_rows(times, [np.arange(1_000), np.arange(1_000, 1_030)]).any()


def test_groups_of_few_rows_are_judged_beside_all_others() -> None:
    times = np.concatenate([[each, each + MINUTE_MS, each + 2 * MINUTE_MS] for each in BODY[:30]])
    times[4] = 0
    members = np.split(np.arange(90), 30)
    assert np.flatnonzero(stray_rows(times, members)).tolist() == [4]


def test_rows_without_any_time_are_not_stray() -> None:
    times = np.full(40, NO_TIME)
    assert counted(times, stray_rows(times, [np.arange(40)])) is None
