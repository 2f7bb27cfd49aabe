"""Sensors that leave their estimates by the others, and the sensor at fault among them.

The mean of a sensor's residual over the newest `BLOCKS` blocks is judged. A worker's window holds as many blocks, so
files and streams are judged alike.

A sensor that drifts takes its neighbours' estimates along, so they leave theirs too. The sensor at fault is the one
without which the others' residuals are calm again: its readings are taken out of all estimates, and a sensor that still
alarms is the next candidate. A meter and the sensors that it adds up all explain the same residual; the sensor at fault
is undecided until one leaves its usual range. If several are at fault at once, no single one is: habits have changed.
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

BLOCKS = 12  # number of blocks in the mean that is judged
MEMORY = BLOCKS * BLOCK  # steps
MOST = 1000.0  # scales; a reading counts as no further from its level
SHARED = 3  # sensors at fault at once that are a shift, or half of the group's if that is less
_MOST_CANDIDATES = 8  # candidates with the highest scores; each costs the residuals of all sensors
DECIDED_WITHIN = 24  # blocks
_SUSPECT = 0.25  # limits; a neighbour may alarm before the sensor that is at fault


def recent(deviation: Doubles, scale: Doubles) -> Doubles:
    """Return means of the newest `BLOCKS` blocks at each block [C, n].

    A mean is NaN if the newest block, or more than half of the blocks, are unknown: readings of a silent sensor are
    from another time than those of the others.

    Args:
        deviation: float64 [C, n], block means less the group's levels; NaN where there is none.
        scale: float64 [C], scale of the estimates. Sums are of parts of it, up to MOST of it.
    """
    known = np.isfinite(deviation)
    parts = np.clip(np.where(known, deviation, 0.0) / scale[:, None], -MOST, MOST)
    return mean(sliding_sum(parts, BLOCKS), sliding_count(known, BLOCKS), known) * scale[:, None]


def mean(total: Doubles, count: Ints, newest: Bools) -> Doubles:
    """Return total / count; NaN if fewer than half of the blocks count, or the newest does not."""
    return np.where(newest & (2 * count >= BLOCKS), total / np.maximum(count, 1), np.nan)


def statistic(estimates: Estimates, means: Doubles, left_out: Bools | None = None) -> Doubles:
    """Return the distance of means [C, n] from their estimates by the other sensors, in scales.

    The distance is 0 if the mean, or the means of more than half of the sensors, are unknown: thresholds are learned
    from estimates by more sensors.

    Args:
        estimates: estimates by the other sensors.
        means: float64 [C, n], result of `recent`.
        left_out: bool [C], sensors that estimate no other one.
    """
    return _judged(means, estimates.residuals(means, left_out))


def scores(estimates: Estimates, means: Doubles, limit: Doubles, left_out: Bools | None = None) -> Doubles:
    """Return `statistic` in limits [C]; limits of estimates by fewer sensors are wider."""
    return _judged(means, estimates.scores(means, limit, left_out))


def _judged(means: Doubles, residuals: Doubles) -> Doubles:
    enough = 2 * np.isfinite(means).sum(axis=0) >= len(means)
    return np.where(enough, np.abs(np.nan_to_num(residuals)), 0.0)


@dataclass(frozen=True)
class Verdict:
    """The sensors at fault at a block.

    fault: bool [C], sensors at fault.
    unrest: highest score of the others without them.
    suspects: bool [C], every sensor that may be the one at fault: the others are calm without it. If several sensors
        are at fault, these.
    """

    fault: Bools
    unrest: float
    suspects: Bools

    @property
    def decided(self) -> bool:
        """True if no other sensor may be at fault."""
        return not (self.suspects & ~self.fault).any()


def at_fault(deviation: Doubles, doubted: Bools, estimates: Estimates, limit: Doubles) -> tuple[Bools, Bools, Doubles]:
    """Return the sensors at fault at each block, the blocks at which this is sure, and all scores in limits.

    Sensors that follow from one another may all explain a drift that begins. The next block with only one of them left
    decides, or else the block before, within `DECIDED_WITHIN` blocks. Otherwise the sensor without which the others are
    calmest counts as at fault, and this is not sure.

    Returns:
        bool [C, n], bool [n] and float64 [C, n].

    Args:
        deviation: float64 [C, n], block means less the group's levels; NaN where there is none.
        doubted: bool [C, n], blocks at which a sensor has another known fault. As long as one is among the recent
            blocks, the sensor estimates no other and has no drift.
        estimates: estimates by the other sensors.
        limit: float64 [C], value above which a sensor alarms.
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
    """Set the sensors at fault [C, n] at decided blocks, and at others that suspect the last decided sensor."""
    last, last_at = np.zeros(len(fault), np.bool_), 0
    for block, verdict in verdicts:
        if verdict.decided:
            fault[:, block] = last = verdict.fault
            last_at = block
        elif abs(last_at - block) <= DECIDED_WITHIN and last.sum() == 1 and (verdict.suspects & last).any():
            fault[:, block] = fault[:, block] if fault[:, block].any() else last


def shared_by(sensors: int) -> int:
    """Return the number of sensors at fault that make a shift in a group of this many."""
    return min(SHARED, max(2, (sensors + 1) // 2))


def culprits(scores: Callable[[Bools], Doubles], score: Doubles, doubted: Bools) -> Verdict:
    """Return the sensors at fault.

    Sensors are removed one by one until the others are calm, or until as many are removed as make a shift.

    Args:
        scores: returns the scores of all sensors [C], in limits, when the given sensors [C] estimate no other.
        score: float64 [C], scores when all sensors estimate the others.
        doubted: bool [C], sensors with another fault.
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
