"""Sensors that are silent in a window while the others are where nobody saw them together."""

import numpy as np
import pytest

from glaim_stream.form.levels import levels_of
from glaim_stream.tables import Group, fill_groups
from tests.form.samples import STEPS

ROWS, HALF = 1000, 500


def begun_late(before: float) -> tuple[np.ndarray, np.ndarray]:
    """Three sensors [3, N] of one level that falls to 15 in the middle; the second one begins there. And the truth."""
    rng = np.random.default_rng(1)
    level = np.where(np.arange(ROWS) < HALF, before, 15.0) + 0.05 * np.cumsum(rng.normal(size=ROWS))
    truth = np.stack([level, 2 * level + 5, 100 - level]) + 0.3 * rng.normal(size=(3, ROWS))
    values = truth.copy()
    values[1, :HALF] = np.nan
    return values, truth


@pytest.mark.parametrize("before", [35.0, 22.0])
def test_a_table_leaves_cells_whose_level_is_far_beyond_all_that_were_seen(before: float) -> None:
    values, _ = begun_late(before)
    group = fill_groups([Group("g", 60_000 * np.arange(ROWS), values)], sensors=["a", "b", "c"]).groups[0]
    assert np.isfinite(group.values[1, :HALF]).sum() <= 2  # beside the first reading


def test_a_level_beyond_those_that_were_seen_is_followed_as_far_as_their_range_is_wide() -> None:
    rng = np.random.default_rng(3)
    level = rng.normal(size=(400, 1)) @ np.array([[1.0, 2.0]])
    seen = np.ones((400, 2, STEPS), np.bool_)
    levels = levels_of(level + 0.01 * rng.normal(size=level.shape), seen, np.zeros(400, np.int64))
    (low, own), (high, most) = levels.lowest, levels.highest
    known = np.array([[True, False]])
    inside, beyond, far = (levels.complete(np.array([[at, 0.0]]), known) for at in (0.5, high + 1.0, 1.9 * high - low))
    assert inside[0][0, 1] == pytest.approx(1.0, abs=0.05)
    assert beyond[0][0, 1] == pytest.approx(2 * (high + 1.0), abs=0.2)
    assert beyond[1][0, 1] - inside[1][0, 1] == pytest.approx((0.5 * (beyond[0][0, 1] - most)) ** 2)
    assert far[0][0, 1] <= most + (most - own)


def test_the_spread_within_a_group_counts_only_windows_in_which_a_sensor_spoke() -> None:
    level = np.random.default_rng(4).normal(50.0, 2.0, size=(2000, 2))
    seen = np.ones((2000, 2, STEPS), np.bool_)
    seen[:1500, 1] = False
    within = levels_of(level, seen, np.arange(2000) % 2).own
    assert within == pytest.approx([2.0, 2.0], rel=0.1)


def test_a_sensor_that_begins_within_windows_follows_the_others_as_in_whole_ones() -> None:
    rng = np.random.default_rng(2)
    moving = np.cumsum(rng.normal(size=(300, 1)), axis=0)
    cells = moving + np.linspace(5.0, -5.0, STEPS)  # falls within each window
    values = np.stack([cells, 3 * cells], axis=1)
    observed = np.ones(values.shape, np.bool_)
    observed[150:, 1, : STEPS // 2] = False
    level = np.where(observed, values, 0.0).sum(axis=2) / observed.sum(axis=2)
    found = levels_of(level, observed, np.zeros(300, np.int64))
    at = moving.mean() + np.array([[1.0, 0.0]])
    expected, _ = found.complete(at, np.array([[True, False]]))
    whole = levels_of(values.mean(axis=2), np.ones_like(observed), np.zeros(300, np.int64))
    expectation = whole.complete(at, np.array([[True, False]]))[0]
    assert expected[0, 1] == pytest.approx(expectation[0, 1], abs=1.0)  # 3.75 less where half windows count
