"""Sensors that leave their estimates by the others, and which of them is at fault.

What is judged is the mean of a sensor's residual over the newest `BLOCKS` blocks. That is as much as a worker's window
holds, so files and streams are judged alike.

A sensor that drifts takes its neighbours' estimates along, so they leave theirs too. The one at fault is the one
without which the others' residuals are calm again: its readings are taken out of all estimates, and who still alarms is
the next candidate. Where several are at fault at once, no single one is: habits have changed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from glaim_stream.health.estimates import BLOCK, Estimates
from glaim_stream.health.series import sliding_count, sliding_sum

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BLOCKS = 12  # whose mean is judged
MEMORY = BLOCKS * BLOCK  # steps
MOST = 1000.0  # scales; a reading counts as no further from its level
SHARED = 3  # sensors at fault at once, or half of the group's if that is less: no single one is
_MOST_CANDIDATES = 8  # with the highest scores: each costs the residuals of all sensors
_SUSPECT = 0.25  # limits; a neighbour may alarm before the sensor that is at fault


def recent(deviation: Doubles, scale: Doubles) -> Doubles:
    """Return means of the newest `BLOCKS` blocks at each block [C, n].

    They are NaN where the newest block is not known, or fewer than half are: the readings of a silent sensor are of
    another time than those of the others.

    Args:
        deviation: float64 [C, n], block means less the group's levels; NaN where there is none.
        scale: float64 [C], of the estimates. Sums are of parts of it, up to MOST of it.
    """
    known = np.isfinite(deviation)
    parts = np.clip(np.where(known, deviation, 0.0) / scale[:, None], -MOST, MOST)
    return mean(sliding_sum(parts, BLOCKS), sliding_count(known, BLOCKS), known) * scale[:, None]


def mean(total: Doubles, count: Ints, newest: Bools) -> Doubles:
    """Return total / count; NaN where fewer than half of the blocks count, or the newest does not."""
    return np.where(newest & (2 * count >= BLOCKS), total / np.maximum(count, 1), np.nan)


def statistic(estimates: Estimates, means: Doubles, left_out: Bools | None = None) -> Doubles:
    """Return the distance of means [C, n] from their estimates by the other sensors, in scales.

    It is 0 where a mean is unknown, and where those of more than half of the sensors are: thresholds are learned from
    estimates by more of them.

    Args:
        estimates: by the other sensors.
        means: as `recent` gives them.
        left_out: bool [C], sensors that estimate no other one.
    """
    enough = 2 * np.isfinite(means).sum(axis=0) >= len(means)
    return np.where(enough, np.abs(np.nan_to_num(estimates.residuals(means, left_out))), 0.0)


def at_fault(deviation: Doubles, doubted: Bools, estimates: Estimates, limit: Doubles) -> tuple[Bools, Doubles]:
    """Return the sensors at fault at each block, bool [C, n], and all statistics in limits, float64 [C, n].

    Args:
        deviation: float64 [C, n], block means less the group's levels; NaN where there is none.
        doubted: bool [C, n], blocks at which a sensor is known to be faulty otherwise: it estimates no other one as
            long as that lies among the recent blocks, and has no fault of this kind.
        estimates: by the other sensors.
        limit: float64 [C], above which a sensor alarms.
    """
    means = recent(deviation, estimates.scale)
    score = statistic(estimates, means) / limit[:, None]
    doubted = sliding_count(doubted, BLOCKS) > 0
    fault = np.zeros(score.shape, np.bool_)
    for block in np.flatnonzero((score > 1.0).any(axis=0)).tolist():
        newest = means[:, block : block + 1]

        def scores(without: Bools, newest: Doubles = newest) -> Doubles:
            return statistic(estimates, newest, without)[:, 0] / limit

        fault[:, block], _ = culprits(scores, score[:, block], doubted[:, block])
    return fault, score


def shared_by(sensors: int) -> int:
    """Return the number of sensors at fault that make a shift in a group of that many."""
    return min(SHARED, max(2, (sensors + 1) // 2))


def culprits(scores: Callable[[Bools], Doubles], score: Doubles, doubted: Bools) -> tuple[Bools, float]:
    """Return the sensors at fault, bool [C], and the highest score of the others without them.

    Sensors are removed one after the other until the others are calm. With as many as make a shift the search ends.

    Args:
        scores: of all sensors [C] in limits, when the given ones [C] estimate no other.
        score: float64 [C], when all of them do.
        doubted: bool [C], sensors that are faulty otherwise.
    """

    def calmer(without: Bools) -> Doubles:
        return np.where(without, 0.0, scores(without))

    removed = doubted.copy()
    if removed.any():
        score = calmer(removed)
    while score.max() > 1.0 and (removed & ~doubted).sum() < shared_by(len(removed)):
        best, least, next_score = -1, np.inf, score
        for candidate in np.argsort(-score, kind="stable")[:_MOST_CANDIDATES]:
            if score[candidate] <= _SUSPECT:
                break
            without = removed.copy()
            without[candidate] = True
            rest = calmer(without)
            unrest = float((rest**2).sum())
            if unrest < least:
                best, least, next_score = int(candidate), unrest, rest
        removed[best] = True
        score = next_score
    return removed & ~doubted, float(score.max())
