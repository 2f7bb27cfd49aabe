"""Sensors that leave their estimates by the others, and which of them is at fault.

What is judged is the mean of a sensor's residual over the newest `BLOCKS` blocks. That is as much as a worker's window
holds, so files and streams are judged alike.

A sensor that drifts takes its neighbours' estimates along, so they leave theirs too. The one at fault is the one
without which the others' residuals are calm again: its readings are taken out of all estimates, and who still alarms is
the next candidate. Of a meter and those that it adds up, each explains the same residual, until one leaves its usual
range: before that it is not decided. Where several are at fault at once, no single one is: habits have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
DECIDED_WITHIN = 24  # blocks
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
    return _judged(means, estimates.residuals(means, left_out))


def scores(estimates: Estimates, means: Doubles, limit: Doubles, left_out: Bools | None = None) -> Doubles:
    """Return what `statistic` does in limits [C]; those of estimates by fewer sensors are wider."""
    return _judged(means, estimates.scores(means, limit, left_out))


def _judged(means: Doubles, residuals: Doubles) -> Doubles:
    enough = 2 * np.isfinite(means).sum(axis=0) >= len(means)
    return np.where(enough, np.abs(np.nan_to_num(residuals)), 0.0)


@dataclass(frozen=True)
class Verdict:
    """Who is at fault at a block.

    fault: bool [C].
    unrest: the highest score of the others without them.
    suspects: bool [C], every sensor that may be the one at fault: without it alone, the others are calm. Where several
        are at fault, those.
    """

    fault: Bools
    unrest: float
    suspects: Bools

    @property
    def decided(self) -> bool:
        """Whether no other sensor may be at fault."""
        return not (self.suspects & ~self.fault).any()


def at_fault(deviation: Doubles, doubted: Bools, estimates: Estimates, limit: Doubles) -> tuple[Bools, Bools, Doubles]:
    """Return the sensors at fault at each block, at which ones that is sure, and all scores in limits.

    A drift that begins may be that of any of some sensors that follow from one another. The next block at which only
    one of them is left tells which, or else the one before, within `DECIDED_WITHIN` blocks. Otherwise it is the one
    without which the others are calmest, and not sure.

    Returns:
        bool [C, n], bool [n] and float64 [C, n].

    Args:
        deviation: float64 [C, n], block means less the group's levels; NaN where there is none.
        doubted: bool [C, n], blocks at which a sensor is known to be faulty otherwise: it estimates no other one as
            long as that lies among the recent blocks, and has no fault of this kind.
        estimates: by the other sensors.
        limit: float64 [C], above which a sensor alarms.
    """
    means = recent(deviation, estimates.scale)
    score = scores(estimates, means, limit)
    doubted = sliding_count(doubted, BLOCKS) > 0
    fault: Bools = np.zeros(score.shape, np.bool_)
    verdicts: list[tuple[int, Verdict]] = []
    for block in np.flatnonzero((score > 1.0).any(axis=0)).tolist():
        newest = means[:, block : block + 1]

        def rest(without: Bools, newest: Doubles = newest) -> Doubles:
            return scores(estimates, newest, limit, without)[:, 0]

        verdicts.append((block, culprits(rest, score[:, block], doubted[:, block])))
    _decide(verdicts[::-1], fault)
    _decide(verdicts, fault)
    sure: Bools = np.logical_or.reduce(fault, axis=0)
    for block, verdict in verdicts:
        if not sure[block]:
            fault[:, block] = verdict.fault
    return fault, sure, score


def _decide(verdicts: list[tuple[int, Verdict]], fault: Bools) -> None:
    """Enter who is at fault [C, n] at decided blocks, and at others where the one of the last decided block may be."""
    last, last_at = np.zeros(len(fault), np.bool_), 0
    for block, verdict in verdicts:
        if verdict.decided:
            fault[:, block] = last = verdict.fault
            last_at = block
        elif abs(last_at - block) <= DECIDED_WITHIN and last.sum() == 1 and (verdict.suspects & last).any():
            fault[:, block] = fault[:, block] if fault[:, block].any() else last


def shared_by(sensors: int) -> int:
    """Return the number of sensors at fault that make a shift in a group of that many."""
    return min(SHARED, max(2, (sensors + 1) // 2))


def culprits(scores: Callable[[Bools], Doubles], score: Doubles, doubted: Bools) -> Verdict:
    """Return who is at fault.

    Sensors are removed one after the other until the others are calm. With as many as make a shift the search ends.

    Args:
        scores: of all sensors [C] in limits, when the given ones [C] estimate no other.
        score: float64 [C], when all of them do.
        doubted: bool [C], sensors that are faulty otherwise.
    """

    def calmer(without: Bools) -> Doubles:
        return np.where(without, 0.0, scores(without))

    removed, suspects = doubted.copy(), np.zeros(len(doubted), np.bool_)
    if removed.any():
        score = calmer(removed)
    count = 0
    while score.max() > 1.0 and count < shared_by(len(removed)):
        best, least, next_score = -1, (True, np.inf), score
        for candidate in np.argsort(-score, kind="stable")[:_MOST_CANDIDATES]:
            if score[candidate] <= _SUSPECT:
                break
            without = removed.copy()
            without[candidate] = True
            rest = calmer(without)
            unrest = bool(rest.max() > 1.0), float((rest**2).sum())
            suspects[candidate] |= not (count or unrest[0])
            if unrest < least:
                best, least, next_score = int(candidate), unrest, rest
        removed[best] = True
        score = next_score
        count += 1
    fault = removed & ~doubted
    return Verdict(fault, float(score.max()), suspects if count == 1 and suspects.any() else fault)
