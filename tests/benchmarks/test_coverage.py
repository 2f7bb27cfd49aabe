"""The benchmark of coverage counts stretches, and refuses intervals that cover by saying nothing."""

import numpy as np
import pytest

from benchmarks.coverage import STRETCH, WARM_UP, Covered, arrivals, problems, stretched, stretches
from benchmarks.drifting import plant, untouched

LOW, HIGH = np.array([0.0]), np.array([100.0])


def found(lower: np.ndarray, upper: np.ndarray) -> Covered:
    """Cells of one sensor whose value and truth are 50 and 51, one a step."""
    count = len(lower)
    ints = np.zeros(count, np.int64)
    return Covered(
        WARM_UP + np.arange(count), ints, ints, np.full(count, 51.0), np.full(count, 50.0), lower, upper, ints > 0
    )


def test_a_predictor_of_nonsense_covers_nine_in_ten_and_is_refused() -> None:
    """Its intervals are infinite nine times of ten, and empty the tenth time."""
    empty = np.arange(1000) % 10 == 0
    nonsense = found(np.where(empty, 50.0, -np.inf), np.where(empty, 50.0, np.inf))
    assert stretches(nonsense)[0].min() == 0.9
    wrong = problems(nonsense, LOW, HIGH)
    assert wrong[0] == "900 of 1000 intervals are not finite"
    assert "100 of 1000 intervals are of no width" in wrong


@pytest.mark.parametrize(
    ("lower", "upper", "what"),
    [
        (49.0, 48.0, "empty"),
        (50.5, 52.0, "without their own value"),
        (50.0, 50.0, "of no width"),
        (-1.0, 60.0, "outside the sensor's limits"),
        (0.0, 100.0, "as wide as the sensor's limits"),
        (np.nan, 60.0, "not finite"),
    ],
)
def test_each_kind_of_nonsense_is_named(lower: float, upper: float, what: str) -> None:
    share = np.arange(100) < 50
    wrong = problems(found(np.where(share, lower, 49.0), np.where(share, upper, 52.0)), LOW, HIGH)
    assert f"50 of 100 intervals are {what}" in wrong


def test_sound_intervals_and_rows_without_one_are_no_problem() -> None:
    assert problems(found(np.array([49.0, np.nan]), np.array([52.0, np.nan])), LOW, HIGH) == []


def test_every_stretch_counts_from_any_step_on() -> None:
    misses = np.arange(2 * STRETCH) < 100
    coverage, cells = stretches(found(np.full(2 * STRETCH, 49.0), np.where(misses, 50.5, 52.0)))
    assert len(coverage) == STRETCH + 1
    assert (cells == STRETCH).all()
    assert (coverage[0], coverage[50], coverage[100], coverage[-1]) == (0.8, 0.9, 1.0, 1.0)


def test_the_stretch_that_holds_a_share_follows_from_the_side_on_which_the_truth_lies() -> None:
    """The truth lies 1 above the value; the intervals reach 0.5, 1, 2 and 4 above it, and 9 below."""
    reach = np.array([0.5, 1.0, 2.0, 4.0])
    cells = found(np.full(4, 41.0), 50.0 + reach)
    assert stretched(cells, 1.0) == 2.0
    assert stretched(cells, 0.5) == pytest.approx(1.0)
    wider = found(50.0 - 2.0 * 9.0 * np.ones(4), 50.0 + 2.0 * reach)
    assert wider.holding.all()


def test_a_late_stretch_arrives_whole_when_it_is_over_and_other_withheld_readings_never() -> None:
    stream = plant(untouched, 300, 2, 5)
    arrives, steps = arrivals(stream), np.arange(300)
    shown = ~stream.hidden
    assert (arrives[shown] == np.broadcast_to(steps, shown.shape)[shown]).all()
    assert (arrives[stream.hidden & ~stream.late] == -1).all()
    assert 0.1 < stream.late.sum() / stream.hidden.sum() < 0.6
    group, sensor, step = np.argwhere(stream.late & (arrives >= 0)).T
    at = arrives[group, sensor, step]
    assert (at > step).all()
    assert shown[group, sensor, at].all()
    assert not any(shown[g, c, s:e].any() for g, c, s, e in zip(group, sensor, step, at, strict=True))
