"""Arrivals: which steps were open when a reading arrived, and which steps are closed at the commit."""

import numpy as np

from tests.operate.audit.tables import COLUMNS, G1, G2, H1, STEP_MS, arrivals_of, arrived, readings


def test_a_step_closes_when_a_later_step_has_a_reading() -> None:
    arrivals = arrived((G1, 0, 5 * STEP_MS, 1.0), (G2, 0, 6 * STEP_MS, 1.0), (G1, 1, 6 * STEP_MS - 1, 1.0))
    assert arrivals.step.tolist() == [5, 6, 5]
    assert arrivals.open_from.tolist() == [5, 6, 6]
    assert arrivals.on_time.tolist() == [True, True, False]
    assert arrivals.closed_at_commit.tolist() == [6, 10]


def test_lateness_keeps_steps_open() -> None:
    """Model 1 has steps of 30 s and waits for 60 s."""
    arrivals = arrived((H1, 0, 300_000, 1.0), (H1, 0, 240_000, 1.0), (H1, 0, 239_999, 1.0))
    assert arrivals.step.tolist() == [10, 8, 7]
    assert arrivals.open_from.tolist() == [8, 8, 8]
    assert arrivals.on_time.tolist() == [True, True, False]


def test_a_reading_older_than_the_window_is_too_late() -> None:
    """The window of 8 steps before the open one, 10, is 2 to 9."""
    times = (10 * STEP_MS, 2 * STEP_MS, 2 * STEP_MS - 1)
    arrivals = arrived(*((G1, 0, time, 1.0) for time in times))
    assert arrivals.too_late.tolist() == [False, False, True]
    assert arrivals.usable.tolist() == [True, True, False]


def test_a_reading_without_a_value_is_not_usable() -> None:
    assert arrived((G1, 0, 0, np.nan), (G1, 0, 0, 0.0)).usable.tolist() == [False, True]


def test_a_timestamp_ahead_of_its_record_moves_the_clock_only_to_the_record_time() -> None:
    given = readings((G1, 0, 9 * STEP_MS, 1.0), (G1, 0, 5 * STEP_MS, 1.0), produced_ms=(6 * STEP_MS, 8 * STEP_MS))
    assert arrivals_of(given, 2, COLUMNS).open_from.tolist() == [6, 6]


def test_the_commit_is_the_first_uncommitted_offset() -> None:
    times = ((G1, 0, 5 * STEP_MS, 1.0), (G1, 0, 8 * STEP_MS, 1.0), (G1, 0, 9 * STEP_MS, 1.0))
    arrivals = arrived(*times, committed=2)
    assert arrivals.committed.tolist() == [True, True, False]
    assert arrivals.closed_at_commit[0] == 8


def test_without_a_commit_nothing_is_closed() -> None:
    arrivals = arrived((G1, 0, 5 * STEP_MS, 1.0), committed=0)
    assert not arrivals.committed.any()
    assert (arrivals.closed_at_commit < 0).all()
