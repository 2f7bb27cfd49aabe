"""Sensors that leave their estimates by the others, and which of them is at fault.

The residual of a sensor is compared with its own mean over the blocks before: habits change with the season, and a
closed form may be biased. A two-sided CUSUM over the last `RECENT` blocks sums what exceeds half a unit.

A sensor that drifts takes its neighbours' estimates along, so they leave theirs too. The one at fault is the one
without which the others' residuals are calm again: its readings are taken out of all estimates, and who still alarms is
the next candidate. Where several are at fault at once, no single one is: habits have changed.

Source: Page (1954), Continuous inspection schemes. Ours differs: the sum begins at most RECENT blocks back, so that it
is a function of the readings since, and residuals count up to a bound, because their tails are heavy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.health.estimates import BLOCK, Estimates
from glaim_stream.health.series import sliding_count, sliding_sum

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

RECENT = 24  # blocks that the CUSUM sums
BASELINE = 96  # blocks before these, whose mean the residuals are compared with
MEMORY = (RECENT + BASELINE) * BLOCK  # steps
SHARED = 3  # sensors at fault at once, or half of the group's if that is less: no single one is
_ZEROS = 12  # blocks without a deviation that the mean begins with
_MOST_CANDIDATES = 8  # with the highest scores: each costs the residuals of all sensors
_SUSPECT = 0.25  # limits; a neighbour may alarm before the sensor that is at fault
_ALLOWANCE, _MOST = 0.5, 20.0  # units of a residual


@dataclass(frozen=True)
class Habits:
    """What is usual of residuals.

    unit: float64 [C], a deviation of the residuals from their mean; infinite for a sensor that is not judged.
    limit: float64 [C], the CUSUM above which a sensor alarms.
    """

    unit: Doubles
    limit: Doubles


def away(residual: Doubles) -> Doubles:
    """Return residuals less the mean of the blocks before the recent ones, at the newest recent block, [C, n]."""
    return residual - _baseline(residual)


def cusum(residual: Doubles, unit: Doubles) -> Doubles:
    """Return the larger of both one-sided CUSUMs [C, n].

    Args:
        residual: float64 [C, n]; a block without one counts as 0.
        unit: float64 [C].
    """
    base = _baseline(residual)
    highest = np.zeros(residual.shape)
    up, down = np.zeros(residual.shape), np.zeros(residual.shape)
    for back in range(min(RECENT, residual.shape[1])):
        past = np.full(residual.shape, np.nan)
        past[:, back:] = residual[:, : residual.shape[1] - back]
        size = np.nan_to_num(np.clip((past - base) / unit[:, None], -_MOST, _MOST))
        up += np.where(np.isfinite(past), size - _ALLOWANCE, 0.0)
        down -= np.where(np.isfinite(past), size + _ALLOWANCE, 0.0)
        highest = np.maximum(highest, np.maximum(up, down))
    return highest


def at_fault(deviation: Doubles, doubted: Bools, estimates: Estimates, habits: Habits) -> tuple[Bools, Doubles]:
    """Return the sensors at fault at each block, bool [C, n], and all CUSUMs in limits, float64 [C, n].

    Args:
        deviation: float64 [C, n], block means less the group's levels; NaN where there is none.
        doubted: bool [C, n], blocks at which a sensor is known to be faulty otherwise: it estimates no other one as
            long as that lies among the recent blocks, and has no fault of this kind.
        estimates: by the other sensors.
        habits: of the residuals.
    """
    score = _scores(deviation, estimates, habits, None)
    doubted = sliding_count(doubted, RECENT) > 0
    fault = np.zeros(score.shape, np.bool_)
    for block in np.flatnonzero((score > 1.0).any(axis=0)):
        first = max(0, block + 1 - RECENT - BASELINE)
        part = deviation[:, first : block + 1]
        fault[:, block] = _explained(part, doubted[:, block], estimates, habits, score[:, block])
    return fault, score


def shared_by(sensors: int) -> int:
    """Return the number of sensors at fault that make a shift in a group of that many."""
    return min(SHARED, max(2, (sensors + 1) // 2))


def _explained(deviation: Doubles, doubted: Bools, estimates: Estimates, habits: Habits, score: Doubles) -> Bools:
    """The sensors at fault at the newest block, bool [C]: removed one after the other until the others are calm.

    With as many as make a shift the search ends.
    """
    removed = doubted.copy()
    if removed.any():
        score = _calmer(deviation, estimates, habits, removed)
    while score.max() > 1.0 and (removed & ~doubted).sum() < shared_by(len(removed)):
        best, least, calmer = -1, np.inf, score
        for candidate in np.argsort(-score, kind="stable")[:_MOST_CANDIDATES]:
            if score[candidate] <= _SUSPECT:
                break
            without = removed.copy()
            without[candidate] = True
            rest = _calmer(deviation, estimates, habits, without)
            unrest = float((rest**2).sum())
            if unrest < least:
                best, least, calmer = int(candidate), unrest, rest
        removed[best] = True
        score = calmer
    return removed & ~doubted


def _calmer(deviation: Doubles, estimates: Estimates, habits: Habits, removed: Bools) -> Doubles:
    """Scores of the newest block [C] without the readings of some sensors, whose own scores are 0."""
    return np.where(removed, 0.0, _scores(deviation, estimates, habits, removed)[:, -1])


def _scores(deviation: Doubles, estimates: Estimates, habits: Habits, left_out: Bools | None) -> Doubles:
    return cusum(estimates.residuals(deviation, left_out), habits.unit) / habits.limit[:, None]


def _baseline(residual: Doubles) -> Doubles:
    known = np.isfinite(residual)
    total, count = np.zeros(residual.shape), np.zeros(residual.shape)
    older = slice(0, max(0, residual.shape[1] - RECENT))
    total[:, RECENT:] = sliding_sum(np.where(known, residual, 0.0), BASELINE)[:, older]
    count[:, RECENT:] = sliding_count(known, BASELINE)[:, older]
    return total / (count + _ZEROS)
