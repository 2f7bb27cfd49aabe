"""Chooses cells of a table to hide, so that a fill can be compared with the true readings.

The holes of a table predict the next ones: its own pattern of missing cells is shifted by a random number of steps and
laid over the readings. Whole missing rows stay whole, and long gaps stay long. Sensors with hardly any holes of their
own also get random blocks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.tables.lines import gap_lengths

Bools = NDArray[np.bool_]

_SEED = 20_261
_SHARE = 0.08  # share of a sensor's readings to hide
_LEAST_CELLS = 30  # hidden cells of a sensor, if it has enough readings
_MOVES = 8
_RANDOM_BLOCKS = (1, 1, 1, 2, 4, 8)  # steps


def hidden_cells(observed: Bools, longest: int, group: int = 0) -> Bools:
    """Choose observed cells of a group [C, N] to hide: about a twelfth of each sensor's, at most a quarter.

    Args:
        observed: bool [C, N], cells with a reading.
        longest: longest gap in steps that is part of the pattern; longer gaps are usually not filled.
        group: number of the group, which seeds the random numbers.
    """
    rng = np.random.default_rng([_SEED, group])
    sensors, steps = observed.shape
    missing = ~observed
    pattern = missing & (gap_lengths(missing) <= longest)
    readings = observed.sum(axis=1)
    hidden = np.zeros_like(observed)
    for _ in range(_MOVES if steps > 1 else 0):
        short = hidden.sum(axis=1) < np.maximum(_SHARE * readings, _LEAST_CELLS)
        if not short.any():
            break
        moved = np.roll(pattern, int(rng.integers(1, steps)), axis=1) & observed & short[:, None]
        share = float((moved.sum(axis=1) / np.maximum(readings, 1)).max())
        block = max(1, longest // 2)
        kept = rng.random(-(-steps // block)) < min(1.0, _SHARE / max(share, 1e-9))
        hidden |= moved & np.repeat(kept, block)[:steps]
    for sensor in range(sensors):
        most = int(readings[sensor]) // 4
        for _ in range(_LEAST_CELLS):
            if hidden[sensor].sum() >= min(_LEAST_CELLS, most):
                break
            at = int(rng.choice(np.flatnonzero(observed[sensor])))
            end = at + int(rng.choice(_RANDOM_BLOCKS))
            hidden[sensor, at:end] |= observed[sensor, at:end]
        over = np.flatnonzero(hidden[sensor])
        if len(over) > most:
            hidden[sensor, rng.permutation(over)[most:]] = False
    return hidden
