"""Rows and windows do not depend on how many windows are judged in one call."""

from unittest import mock

import numpy as np
import pytest

from glaim_stream.health import Plausibility
from glaim_stream.windows import judging
from glaim_stream.windows.partition import PartitionWindows
from tests.support import STEP_MS, Event, catalogue, columns
from tests.windows.test_screen import assert_same, history, windows_of

STEPS = 80


def doubted(seed: int, most: int) -> int:
    """Compare windows judged one at a time with windows judged by up to `most`; returns the number of doubts."""
    rng = np.random.default_rng(seed)
    alone, together = windows_of(seed, screened=True), windows_of(seed, screened=True)
    found = 0
    waiting: list[Event] = []
    for events in history(seed, STEPS):
        waiting += events
        if rng.random() < 0.7:
            continue  # so that batches close several steps
        results = []
        for windows, at_a_time in ((alone, 1), (together, most)):
            with mock.patch.object(judging, "ROWS_AT_A_TIME", at_a_time):
                results.append(windows.feed(columns(waiting), arrival_ms=0))
        assert_same(*results)
        found += sum(int(closed.doubted.sum()) for closed in results[0].closed)
        waiting = []
    return found


def test_rows_and_windows_do_not_depend_on_the_number_judged_at_a_time() -> None:
    assert sum(doubted(seed, most) for seed, most in enumerate((2, 3, 7, 40, 1000))) > 0


def steps_with_a_spike(groups: int, steps: int) -> list[Event]:
    """Readings of one sensor, in each group a spike at another step, and the other a hole at each fourth step."""
    rng = np.random.default_rng(5)
    values = rng.uniform(20, 30, (steps, groups))
    values[40 + np.arange(groups), np.arange(groups)] = 300.0
    return [
        Event(step * STEP_MS, float(values[step, group]) if sensor == 0 else 1.0 + step % 5, group, sensor)
        for step in range(steps)
        for group in range(groups)
        for sensor in range(2)
        if sensor == 0 or step % 4
    ]


def test_each_spike_is_marked_at_its_step_and_hidden_in_the_windows_of_later_steps() -> None:
    windows = PartitionWindows(catalogue(sensors=2, window=24))
    (closed,) = windows.feed(columns(steps_with_a_spike(5, 100)), arrival_ms=0).closed
    place = np.flatnonzero(closed.doubted)
    assert sorted((closed.ts_ms[place] // STEP_MS - 40).tolist()) == closed.group[place].tolist()
    assert closed.value[place].tolist() == [300.0] * 5
    assert not (closed.window_values > 100).any()
    spikes = (closed.window_values[:, 0] == 0) & ~closed.window_observed[:, 0]
    assert spikes.any(axis=1).sum() >= 5 * (24 // 4 - 1)  # every fourth step of those that still hold it


@pytest.mark.parametrize(("groups", "calls"), [(2, 5), (20, 40)])
def test_windows_of_several_steps_are_judged_together(groups: int, calls: int) -> None:
    """A step of few groups would need a call of its own."""
    windows = PartitionWindows(catalogue(sensors=2, window=24))
    judged: list[int] = []

    def count(rule: Plausibility, values: np.ndarray, observed: np.ndarray) -> np.ndarray:
        judged.append(len(values))
        return np.zeros(observed.shape, np.bool_)

    with mock.patch.object(Plausibility, "doubtful", count):
        windows.feed(columns(steps_with_a_spike(groups, 100)), arrival_ms=0)
    assert len(judged) <= calls
    assert max(judged) < 2 * judging.ROWS_AT_A_TIME
