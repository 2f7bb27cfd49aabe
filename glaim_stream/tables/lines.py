"""Lines between readings over whole series, and their distance from readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.masks import runs
from glaim_stream.core.vocabulary import Method
from glaim_stream.form import Kind, are, distances, resets, simple_value

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Codes = NDArray[np.uint8]


@dataclass(frozen=True)
class Lines:
    """Lines between the readings of C series of N steps, all arrays [C, N].

    values: values of the lines; NaN for a series without a reading.
    method: INTERPOLATION between two readings; LAST_VALUE before the first and after the last one, for states, and
        across a meter's reset; NONE without any.
    scale: deviation of a random walk of steps of deviation 1 from the line; 0 at readings, infinite without any and
        across a reset.
    """

    values: Doubles
    method: Codes
    scale: Doubles


def lines(values: Doubles, observed: Bools, kinds: Sequence[Kind | None]) -> Lines:
    """Draw lines, or their counterparts for the sensors' kinds.

    Args:
        values: float64 [C, N], readings; ignored where not observed.
        observed: bool [C, N], cells with a reading.
        kinds: kinds of the C sensors; None: unknown, treated as a number.
    """
    left, right = distances(observed)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = left * right / (left + right)
        scale = np.sqrt(np.where(np.isfinite(left) & np.isfinite(right), between, np.minimum(left, right)))
    scale = np.where(observed, 0.0, scale)
    both = np.isfinite(left) & np.isfinite(right)
    some = np.isfinite(left) | np.isfinite(right)
    method = np.where(both, np.uint8(Method.INTERPOLATION), np.uint8(Method.LAST_VALUE))
    method = np.where(some, method, np.uint8(Method.NONE))
    known = np.where(observed, values, 0.0)
    reset = are(kinds, Kind.METER)[:, None] & resets(known, observed)
    kept = some & (reset | are(kinds, Kind.STATE)[:, None])
    method, scale = np.where(kept, np.uint8(Method.LAST_VALUE), method), np.where(reset, np.inf, scale)
    return Lines(simple_value(kinds, known, observed), method, scale)


def gap_lengths(missing: Bools) -> Ints:
    """Length of the run of missing cells in which each cell [C, N] lies; 0 elsewhere."""
    out = np.zeros(missing.shape, np.int64)
    for sensor, row in enumerate(missing):
        lengths = np.diff(runs(row)).ravel()
        out[sensor, row] = np.repeat(lengths, lengths)
    return out
