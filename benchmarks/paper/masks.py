"""The hidden cells of every test window: equal on every machine, in every order and batch.

The paper: "the mask assigned to each test sample is determined by the dataset, missingness pattern, missing rate,
input-window length, and sample index". So each window has its own generator, seeded by exactly these. Masks are
cached in memory only: drawing them takes seconds, and a file could outlive the sampler that wrote it.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from training.data import SEGMENTS, Bools, block_cells, random_cells


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
    """Draw the hidden cells [C, T] of one test window.

    Args:
        dataset: The data set's name.
        pattern: `random` or `block`.
        rate: Missing rate, in (0, 1).
        window: T, steps.
        index: Number of the test window, from 0.
        sensors: C.
        segments: Bounds of the block sampler; not part of the seed, so that samplers are compared on like draws.
        draw: 0 for the tables; others show the effect of the draw.

    Raises:
        ValueError: the pattern is unknown.
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
def window_masks(
    dataset: str,
    pattern: str,
    rate: float,
    window: int,
    count: int,
    sensors: int,
    segments: tuple[int, int] = SEGMENTS,
    draw: int = 0,
) -> Bools:
    """Return the hidden cells of the first `count` test windows, bool [count, C, T], read-only."""
    masks = np.stack([window_mask(dataset, pattern, rate, window, i, sensors, segments, draw) for i in range(count)])
    masks.setflags(write=False)
    return masks
