"""Runs of true cells in a mask."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def runs(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first step of each run of true cells in a mask [N], and the step after its last, int64 [runs, 2]."""
    edges = np.diff(np.concatenate([[False], mask, [False]]))  # of booleans: where two neighbours differ
    return np.flatnonzero(edges).reshape(-1, 2)
