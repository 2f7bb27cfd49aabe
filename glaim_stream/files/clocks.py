"""Detects whether the rows of a table belong to several series, each with its own clock."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_FEWEST = 3  # least rows of a series
_OVERLAP = 0.5  # share of the shorter of two spans
_IN_TURN = 0.4  # share of rows whose name differs from that of the row before
_STEADY, _UNSTEADY = 0.85, 0.75  # share of the steps that are within a tenth of the median


def have_own_clocks(times: Ints, codes: Ints) -> bool:
    """Whether rows of different times, grouped by a name, are series over the same span.

    They are in two cases. Rows run back in time only where the name changes: one series stands below the other. Or the
    steps of each series are steady and those of all rows are not: the clocks are seconds apart.

    Args:
        times: int64 [rows], times of the rows that have one, in the order of the table.
        codes: int64 [rows], codes of the names.
    """
    counts = np.unique(codes, return_counts=True)[1]
    if len(counts) < 2 or counts.min() < _FEWEST:
        return False
    parts = np.split(times[np.argsort(codes, kind="stable")], np.cumsum(counts)[:-1])
    spans = np.array([[part.min(), part.max()] for part in parts], np.float64)
    common = spans[:, 1].min() - spans[:, 0].max()
    if common < _OVERLAP * (spans[:, 1] - spans[:, 0]).min():
        return False
    ordered = all((np.diff(part) >= 0).all() for part in parts)
    if ordered and (np.diff(times) < 0).any():
        return True
    # Lasting states are not series, such as those of a machine that is sampled more often while it runs.
    in_turn = (np.diff(codes[np.argsort(times, kind="stable")]) != 0).mean() >= _IN_TURN
    return bool(in_turn) and _steadiness(times) < _UNSTEADY and min(_steadiness(part) for part in parts) >= _STEADY


def _steadiness(times: Ints) -> float:
    """Share of the steps between sorted times that are within a tenth of their median."""
    gaps = np.diff(np.sort(times))
    return float((np.abs(gaps - np.median(gaps)) <= 0.1 * np.median(gaps)).mean())
