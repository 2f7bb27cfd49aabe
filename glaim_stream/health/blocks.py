"""Drift and clocks in a stream, judged at the end of a block of eight steps by sums of the newest blocks.

The sums are whole numbers, one array [R, C, blocks] each, addressed by block modulo length; the caller keeps them.

A sensor drifts once it was at fault in five of six blocks, and while the others are calm without it. If the others are
calm without either of several sensors, the culprit is the one without which they are calmest: unlike in files, an event
cannot wait for the decision. If enough sensors for a shift are at fault within these blocks, the whole group shifts:
the habits, or a model, are out of date, and no single sensor is to blame.

A clock is judged by the mean move of its stamps within their steps over the newest `statistics.WINDOW` steps. A
constant error or a slow drift of a clock moves no stamp far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.health import drift, statistics
from glaim_stream.health.estimates import BLOCK, FEWEST
from glaim_stream.health.live import WINDOW_BLOCKS, Found, LiveHabits
from glaim_stream.health.series import GridSeries, of_whole, whole

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Sums = Sequence[NDArray[Any]]

_CONFIRMING = 6  # blocks
_LASTING = 5  # blocks of these in which the sensor is at fault
_CALM = 0.8  # share of the limit; others above it may be about to leave their estimates too
_AT_FAULT, _ALONE = 1, 2  # _ALONE: at fault, and the others are calm without it

# Lengths and types of the sums: means and readings of blocks and sensors at fault; moves of stamps and their number.
DRIFT_SUMS = ((drift.BLOCKS, np.int32), (drift.BLOCKS, np.int8), (_CONFIRMING, np.int8))
CLOCK_SUMS = ((WINDOW_BLOCKS, np.int32), (WINDOW_BLOCKS, np.int8))
CLOCK_STEPS = BLOCK + statistics.NEAR  # steps that the moves of a block depend on


def drifts(
    live: LiveHabits,
    sums: Sums,
    block: int,
    values: Doubles,
    observed: Bools,
    place: Ints,
    doubted: Callable[[int], Bools],
) -> Found:
    """Judge the drift of the sensors of R groups.

    Args:
        live: habits that judge drift.
        sums: arrays of `DRIFT_SUMS`, to which the block is added.
        block: number of the block.
        values: float64 [R, C, BLOCK], readings at the block's steps.
        observed: bool [R, C, BLOCK].
        place: int64 [R], row of each group in the habits.
        doubted: gives the sensors of a row that are known to be faulty otherwise, bool [C].
    """
    mean_of_block, known, fault = sums
    limit, newest = live.limit["drift"], block % drift.BLOCKS
    with np.errstate(over="ignore", invalid="ignore"):
        size = (values - live.levels[place][:, :, None]) / live.estimates.scale[:, None]
    used = observed & np.isfinite(size)
    parts = whole(np.where(used, np.clip(size, -drift.MOST, drift.MOST), 0.0)).sum(axis=2)
    readings = used.sum(axis=2)
    enough = readings >= FEWEST
    mean_of_block[:, :, newest] = np.where(enough, np.rint(parts / np.maximum(readings, 1)), 0)
    known[:, :, newest] = enough
    total = of_whole(mean_of_block.sum(axis=2, dtype=np.int64))
    means = (drift.mean(total, known.sum(axis=2, dtype=np.int64), enough) * live.estimates.scale).T
    score = drift.scores(live.estimates, means, limit).T
    slot = block % _CONFIRMING
    for row in np.flatnonzero((score > 1.0).any(axis=1)).tolist():

        def rest(removed: Bools, row: int = row) -> Doubles:
            return drift.scores(live.estimates, means[:, row : row + 1], limit, removed)[:, 0]

        found = drift.culprits(rest, score[row], doubted(row))
        fault[row, :, slot] = np.where(found.fault, _ALONE if found.unrest <= _CALM else _AT_FAULT, 0)
    count = (fault != 0).sum(axis=2)
    shift = (count > 0).sum(axis=1) >= drift.shared_by(count.shape[1])
    alone = (fault[:, :, slot] == _ALONE) & (count >= _LASTING)
    alarm = np.where(shift[:, None], np.isfinite(means.T), alone)
    age = np.full(score.shape, drift.BLOCKS * BLOCK - 1, np.int64)
    statistic = np.where(np.isfinite(limit), score * limit, 0.0)
    limits, special = np.broadcast_to(limit, score.shape), np.broadcast_to(shift[:, None], score.shape)
    return Found(alarm, statistic, limits, age, special)


def clocks(live: LiveHabits, sums: Sums, block: int, stamps: Doubles, observed: Bools) -> Found:
    """Judge the clocks of the sensors of R groups.

    Args:
        live: habits that judge clocks.
        sums: arrays of `CLOCK_SUMS`, to which the block is added.
        block: number of the block.
        stamps: float64 [R, C, CLOCK_STEPS], stamps of the readings until the end of the block, in steps.
        observed: bool [R, C, CLOCK_STEPS].
    """
    moves, count = sums
    moved, known = _moves(stamps, observed)
    slot = block % WINDOW_BLOCKS
    moves[:, :, slot] = whole(moved).sum(axis=2)
    count[:, :, slot] = newest = np.count_nonzero(known, axis=2)
    mean = statistics.mean_of(of_whole(moves.sum(axis=2, dtype=np.int64)), count.sum(axis=2, dtype=np.int64))
    limit = np.broadcast_to(live.limit["clock"], mean.shape)
    age = np.full(mean.shape, statistics.WINDOW - 1, np.int64)
    return Found((mean > limit) & (newest > 0), mean, limit, age, np.zeros(mean.shape, np.bool_))


def _moves(stamps: Doubles, observed: Bools) -> tuple[Doubles, Bools]:
    """Moves (see `statistics`) and known cells at the newest block's steps, [R, C, BLOCK]; faster without holes."""
    moved = statistics.around(np.diff(stamps[..., -BLOCK - 1 :]))
    known = observed[..., -BLOCK:].copy()
    holes = ~observed[..., -BLOCK - 1 :].all(axis=2)
    if holes.any():
        values = stamps[holes]
        found = statistics.moves(GridSeries("", 0, 1, values, observed[holes], offset=values))
        moved[holes], known[holes] = (each[:, -BLOCK:] for each in found)
    return moved, known
