"""The outages that a data set really had: found once, replayed elsewhere to train for the ones that will come.

Sensors that hang on one cable, one logger or one radio fail together, and every plant has its own way of failing.
Gap patterns of the training part are kept as templates of a window's size and laid over other windows, and the sets of
sensors that went out together are kept to be put out together again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Bools = NDArray[np.bool_]

MOST = 2048  # templates kept: 2 MB at 11 sensors and 96 steps, far more than a run draws from one window's shape
FULLEST = 0.75  # a template that hides more than this share of a window leaves too little to fill it from


@dataclass(frozen=True)
class Outages:
    """What was found, True where a reading was missing; both may be empty (N or M is 0)."""

    templates: Bools  # [N, C, T] gap patterns of whole windows
    sets: Bools  # [M, C] two or more sensors, not all, that were out at the same step; one row an occasion

    @classmethod
    def harvest(cls, known: Bools, window: int, most: int = MOST) -> Outages:
        """Find the outages in a series.

        Args:
            known: bool [G, C, R], True where a reading is there. R is `window` or more.
            window: T, steps of a template.
            most: At most so many templates and sets, evenly spread over groups and time.

        Returns:
            The same templates and sets whenever asked. A row that nobody ever observed counts as absent from the
            group, not as out, so it makes no template.
        """
        missing = ~known & known.any(axis=-1, keepdims=True)
        return cls(_templates(missing, window, most), _sets(missing, most))


def _templates(missing: Bools, window: int, most: int) -> Bools:
    """Windows of `missing` [G, C, R] that have a gap and are not all gap, bool [N, C, T]."""
    lost = np.cumsum(np.pad(missing.sum(axis=1), ((0, 0), (1, 0))), axis=1)
    share = (lost[:, window:] - lost[:, :-window]) / (missing.shape[1] * window)  # (G, R - T + 1)
    groups, starts = np.nonzero((share > 0) & (share <= FULLEST))
    chosen = _spread(groups.size, most)
    view = sliding_window_view(missing, window, axis=-1)  # (G, C, R - T + 1, T), no copy
    templates: Bools = np.ascontiguousarray(view[groups[chosen], :, starts[chosen]])
    return templates


def _sets(missing: Bools, most: int) -> Bools:
    """Sensors out together, bool [M, C], taken where the set changes: a long outage counts once, as a short one."""
    began = np.ones((missing.shape[0], missing.shape[-1]), np.bool_)
    began[:, 1:] = (missing[:, :, 1:] != missing[:, :, :-1]).any(axis=1)
    count = missing.sum(axis=1)
    groups, rows = np.nonzero(began & (count >= 2) & (count < missing.shape[1]))
    chosen = _spread(groups.size, most)
    return missing[groups[chosen], :, rows[chosen]]


def _spread(size: int, most: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(np.int64)) if size else np.empty(0, int)
