"""The real outages of a data set: found once, then applied to other windows as training gaps.

Sensors on one cable, one logger or one radio fail together, and every plant has its own pattern of failures. The gap
patterns of the training part become templates of the size of a window, and the sets of sensors that failed together are
kept so that they can be hidden together again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Bools = NDArray[np.bool_]

MOST = 2048  # templates kept: 2 MB at 11 sensors and 96 steps, far more than a run draws
FULLEST = 0.75  # a template that hides a larger share of a window leaves too few observations


@dataclass(frozen=True)
class Outages:
    """Real outages, True where a reading was missing; both arrays may be empty (N or M is 0)."""

    templates: Bools  # [N, C, T] gap patterns of whole windows
    sets: Bools  # [M, C] two or more sensors, not all, that were missing at the same step; one row per occasion

    @classmethod
    def harvest(cls, known: Bools, window: int, most: int = MOST) -> Outages:
        """Find the outages in a series.

        Args:
            known: bool [G, C, R], True where a reading is there. R is `window` or more.
            window: T, steps of a template.
            most: Limit of templates and of sets, evenly spread over groups and time.

        Returns:
            The templates and sets; they depend on the arguments alone. A sensor that was never observed counts as
            absent from the group instead of missing, so it makes no template.
        """
        missing = ~known & known.any(axis=-1, keepdims=True)
        return cls(_templates(missing, window, most), _sets(missing, most))


def _templates(missing: Bools, window: int, most: int) -> Bools:
    """Return the windows of `missing` [G, C, R] that have gaps and enough observations, bool [N, C, T]."""
    lost = np.cumsum(np.pad(missing.sum(axis=1), ((0, 0), (1, 0))), axis=1)
    share = (lost[:, window:] - lost[:, :-window]) / (missing.shape[1] * window)  # (G, R - T + 1)
    groups, starts = np.nonzero((share > 0) & (share <= FULLEST))
    chosen = _spread(groups.size, most)
    view = sliding_window_view(missing, window, axis=-1)  # (G, C, R - T + 1, T), no copy
    templates: Bools = np.ascontiguousarray(view[groups[chosen], :, starts[chosen]])
    return templates


def _sets(missing: Bools, most: int) -> Bools:
    """Return the sets of sensors missing together, bool [M, C]; an outage counts once, whatever its length."""
    began = np.ones((missing.shape[0], missing.shape[-1]), np.bool_)
    began[:, 1:] = (missing[:, :, 1:] != missing[:, :, :-1]).any(axis=1)
    count = missing.sum(axis=1)
    groups, rows = np.nonzero(began & (count >= 2) & (count < missing.shape[1]))
    chosen = _spread(groups.size, most)
    return missing[groups[chosen], :, rows[chosen]]


def _spread(size: int, most: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(np.int64)) if size else np.empty(0, int)
