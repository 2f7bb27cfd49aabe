"""The cases of the table: which cells are hidden, and how far before the newest step the scored step lies.

    one         one sensor lacks one step; each sensor in turn
    several     a random set of sensors lacks the same step; each window draws its own
    all         the whole group lacks one step
    silent      one sensor is missing for the whole window; each in turn

The scored step is the newest one or lies 1, 2, 4 or 8 steps before it. Every other observation stays visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.data import Bools, edge_cells, seeded

LAGS = (0, 1, 2, 4, 8)
CASES = ("one", "several", "all", "silent")
LABELS = {
    "one": "one sensor",
    "several": "several sensors",
    "all": "whole group",
    "silent": "one sensor, silent for the window",
}


@dataclass(frozen=True)
class Question:
    """Windows with hidden cells: `hidden` is bool [B, C, T]; of these, the cells at each of `lags` are scored."""

    hidden: Bools
    lags: tuple[int, ...]


def questions(
    case: str, known: Bools, numbers: NDArray[np.int64], key: str, lags: Sequence[int] = LAGS
) -> Iterator[Question]:
    """Yield the questions of a case for a batch of windows; no two score the same cell at the same lag.

    Args:
        case: One of `CASES`.
        known: bool [B, C, T], True where the truth is known.
        numbers: [B], of the windows; a window's number seeds its set of `several`, so the set never changes.
        key: The data set's name; part of the seed.
        lags: Steps before the newest.

    Raises:
        ValueError: the case is unknown.
    """
    sensors = range(known.shape[1])
    if case == "one":
        yield from (Question(edge_cells(known, sensor, lag), (lag,)) for lag in lags for sensor in sensors)
    elif case == "several":
        out = np.stack([_set(known.shape[1], key, int(number)) for number in numbers])[:, :, None]
        yield from (Question(edge_cells(known, None, lag) & out, (lag,)) for lag in lags)
    elif case == "all":
        yield from (Question(edge_cells(known, None, lag), (lag,)) for lag in lags)
    elif case == "silent":
        for sensor in sensors:
            hidden = np.zeros_like(known)
            hidden[:, sensor] = known[:, sensor]
            yield Question(hidden, tuple(lags))
    else:
        raise ValueError(f"case must be one of {', '.join(CASES)}, found {case!r}")


def _set(sensors: int, key: str, number: int) -> Bools:
    """Draw two or more sensors, but not all of three or more; bool [C]."""
    rng = seeded(f"{key}|several", number)
    count = rng.integers(min(2, sensors), max(2, sensors - 1) + 1)
    return rng.permutation(sensors) < count
