"""Reach beside plain quantiles and the package crepes, on errors whose size is known but for a factor that jumps."""

import numpy as np
import pytest
from numpy.typing import NDArray

from glaim_stream.blend.reach import BLOCK, HORIZON, Reach, Scored, levels

Doubles = NDArray[np.float64]
STEPS, EACH, JUMP, SPAN, STRETCH = 2000, 12, 1000, 16.0, 500
RNG = np.random.default_rng(8)
HALF = 2.0 ** RNG.uniform(-3.0, 2.0, (STEPS, EACH))  # half-widths that would hold 90 % before the jump
ERRORS = HALF / 1.645 * RNG.normal(size=HALF.shape) * np.where(np.arange(STEPS) < JUMP, 1.0, 3.0)[:, None]
SMALL = np.quantile(HALF, 0.3) > HALF


def by_reach() -> Doubles:
    """Half-widths [steps, each] of Reach."""
    reach, out = Reach(2, 1), np.empty_like(HALF)
    sensor, alone = np.zeros(EACH, np.int64), np.tile([1.0, 0.0], (EACH, 1))
    for step, (half, errors) in enumerate(zip(HALF, ERRORS, strict=True)):
        both = np.repeat(half, 4).reshape(EACH, 2, 2)
        level = levels(both, np.full(EACH, SPAN), np.ones(EACH, np.int64), np.zeros(EACH, np.bool_))
        out[step] = half * reach.factors(step, alone, sensor, level[:, 0])
        every = np.stack([errors, np.full(EACH, np.nan)], axis=1)
        reach.learn(step, Scored(sensor, every, both, level, np.zeros(EACH)))
    return out


def past(step: int) -> slice:
    """The steps whose errors Reach knows at a step."""
    block = step // BLOCK
    return slice(max(0, (block - HORIZON) * BLOCK), block * BLOCK)


def by_plain_quantile() -> Doubles:
    """The 90 % point of the errors of the same steps, whatever their half-widths were."""
    out = np.full_like(HALF, np.nan)
    for step in range(BLOCK, STEPS):
        out[step] = np.quantile(np.abs(ERRORS[past(step)]), 0.9)
    return out


def covered(half: Doubles, where: NDArray[np.bool_] | bool = True) -> Doubles:
    """Coverage of every stretch after the first one."""
    chosen = np.broadcast_to(where, HALF.shape)[STRETCH:]
    hit = ((np.abs(ERRORS) <= half)[STRETCH:] & chosen).sum(axis=1)
    sums = [np.concatenate([[0], np.cumsum(each)]) for each in (hit, chosen.sum(axis=1))]
    found, count = (each[STRETCH:] - each[:-STRETCH] for each in sums)
    return np.asarray(found / count)


def width(half: Doubles) -> float:
    return float(half[STRETCH:].mean())


def test_every_stretch_holds_although_the_errors_treble() -> None:
    coverage = covered(by_reach())
    assert coverage.min() >= 0.88
    assert coverage.max() <= 0.93
    assert covered(HALF).min() < 0.5, "the half-widths alone"


def test_plain_quantiles_are_wider_and_hold_the_easy_cells_alone() -> None:
    reach, plain = by_reach(), by_plain_quantile()
    assert covered(plain).min() > 0.87, "over all cells"
    assert covered(plain, SMALL).min() > 0.97
    assert covered(plain, np.quantile(HALF, 0.9) < HALF).max() < 0.75
    assert covered(reach, SMALL).min() > 0.86
    assert covered(reach, np.quantile(HALF, 0.9) < HALF).min() > 0.8
    assert width(reach) < 0.95 * width(plain)


def test_crepes_with_the_same_errors_makes_intervals_alike_and_without_them_loses_the_stream() -> None:
    crepes = pytest.importorskip("crepes", reason="crepes is not installed")

    def half_widths(step: int, known: slice) -> Doubles:
        regressor = crepes.ConformalRegressor()
        regressor.fit(residuals=ERRORS[known].ravel(), sigmas=HALF[known].ravel())
        low, high = regressor.predict_int(y_hat=np.zeros(EACH), sigmas=HALF[step], confidence=0.9).T
        return np.asarray((high - low) / 2)

    reach = by_reach()
    every = [np.where(np.arange(STEPS)[:, None] < STRETCH, HALF, np.nan) for _ in range(2)]
    for step in range(STRETCH, STEPS):
        every[0][step] = half_widths(step, slice(0, STRETCH))
        every[1][step] = half_widths(step, past(step))
    before, moving = every
    assert covered(before).min() < 0.5, "fitted once, as in its examples"
    assert covered(moving).min() == pytest.approx(covered(reach).min(), abs=0.03)
    assert width(moving) == pytest.approx(width(reach), rel=0.1)
