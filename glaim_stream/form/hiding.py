"""Cells to hide from validation windows: the holes of a stream, drawn from a fixed seed.

A table hides cells like its own gaps (`glaim_stream.tables`). A stream draws its probes by hashes of group and step
(`glaim_stream.windows`), because it must repeat them after a restart from another step. Training draws the masks of its
batches from one generator (`training.data`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]

CASES = ("newest_one", "newest_all", "blocks", "random")
_SEED = 20_251
_LONGEST_TAIL = 8  # steps hidden from one sensor; half as many for all sensors
_LONGEST_BLOCK = 24
_BLOCK_SHARE = 0.3  # largest share of a sensor's cells
_RANDOM_SHARES = (0.05, 0.4)


def stream_gaps(case: str, observed: Bools) -> Bools:
    """Return the observed cells of windows [n, C, T] that a case hides.

    newest_one  the newest 1 to 8 steps of one sensor
    newest_all  the newest 1 to 4 steps of all sensors
    blocks      blocks of 1 to 24 steps, at most 30 % of each sensor's cells
    random      single cells, between 5 and 40 % of each window's cells
    """
    rng = np.random.default_rng([_SEED, CASES.index(case)])
    count, sensors, steps = observed.shape
    step = np.arange(steps)
    if case.startswith("newest"):
        longest = max(1, min(_LONGEST_TAIL, steps // 4) // (1 if case == "newest_one" else 2))
        tail = step >= steps - rng.integers(1, longest + 1, size=(count, 1, 1))
        chosen = rng.integers(sensors, size=(count, 1, 1)) == np.arange(sensors)[:, None]
        hidden: Bools = tail & (chosen | (case == "newest_all")) & observed
        return hidden
    if case == "random":
        share = rng.uniform(*_RANDOM_SHARES, size=(count, 1, 1))
        return (rng.random(observed.shape) < share) & observed
    hidden = np.zeros(observed.shape, np.bool_)
    for _ in range(4):
        length = rng.integers(1, min(_LONGEST_BLOCK, steps // 4) + 1, size=(count, sensors, 1))
        start = rng.integers(0, steps, size=(count, sensors, 1))
        block = (step >= start) & (step < start + length)
        fits = (hidden | block).mean(axis=2, keepdims=True) <= _BLOCK_SHARE
        hidden |= block & fits
    return hidden & observed
