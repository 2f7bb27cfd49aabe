"""The hidden cells of every test window: the same on every machine, in every order and batch.

The paper: "the mask assigned to each test sample is determined by the dataset, missingness pattern, missing rate,
input-window length, and sample index". So each window has a generator of its own, seeded by exactly these. They are
cached in memory only: drawing them takes seconds, and a file could outlive the sampler that wrote it.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from training.data.masks import SEGMENTS, block_cells, random_cells
from training.data.outages import Bools


def window_mask(
    dataset: str,
    pattern: str,
    rate: float,
    window: int,
    index: int,
    sensors: int,
    segments: tuple[int, int] = SEGMENTS,
    draw: int = 0,
) -> Bools:
    """Hidden cells [C, T] of one test window.

    Args:
        dataset: The data set's name.
        pattern: `random` or `block`.
        rate: Missing rate, in (0, 1).
        window: T, steps.
        index: Of the window among the test windows, from 0.
        sensors: C.
        segments: Of the block sampler; not part of the seed, so that samplers are compared on like draws.
        draw: 0 is that of the tables; others tell how far the draw moves them.

    Raises:
        ValueError: another pattern.
    """
    name = f"{dataset}/{pattern}/{rate:g}/{window}/{index}" + (f"/{draw}" if draw else "")
    seed = hashlib.sha256(name.encode()).digest()
    rng = np.random.default_rng(np.frombuffer(seed, np.uint32))
    everything = np.ones((1, sensors, window), np.bool_)
    if pattern not in ("random", "block"):
        raise ValueError(f"expected the pattern random or block, found {pattern!r}")
    if pattern == "random":
        hidden = random_cells(rng, everything, rate)
    else:
        hidden = block_cells(rng, everything, rate, segments)
    mask: Bools = hidden[0]
    return mask


@lru_cache(maxsize=8)
def hidden_cells(
    dataset: str,
    pattern: str,
    rate: float,
    window: int,
    count: int,
    sensors: int,
    segments: tuple[int, int] = SEGMENTS,
    draw: int = 0,
) -> Bools:
    """Hidden cells of the first `count` test windows, bool [count, C, T], not to be written to."""
    masks = np.stack([window_mask(dataset, pattern, rate, window, i, sensors, segments, draw) for i in range(count)])
    masks.setflags(write=False)
    return masks
