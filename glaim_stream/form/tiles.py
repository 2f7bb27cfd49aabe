"""Windows of many sensors, cut into shorter ones.

The covariance has (C * T)^2 numbers: 32 MB for 21 sensors and 96 steps, 740 MB for 100. Above `MOST_CELLS` the closed
form covers only the nearest L = MOST_CELLS // C steps (at least `_LEAST_SPAN`). A cell is filled from a tile in which
it is far from the edges; the newest steps come from the newest tile, so the newest step costs one tile. A sensor's own
values more than L steps away are not used; they say little, except in gaps longer than L. At C = 100 (L = 25) a busy
core fills the newest steps of 740 windows/s with 5 % missing, whole windows at 95/s, and a fit takes a minute
(`benchmarks/gaussian.py`; other forms: `docs/decisions/many-sensors.md`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]

MOST_CELLS = 2_500
_LEAST_SPAN = 8


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of a window that begins at a step, and the steps `[first, last)` that it fills.

    newest: steps from `first` to the end of the tile.
    """

    start: int
    first: int
    last: int
    newest: int

    def asked(self, asked: Bools, steps: int) -> Bools:
        """Return the steps of the tile, from `first` on, that it fills and that are asked for, bool [newest].

        Args:
            asked: bool [k], newest steps of the window that are asked for.
            steps: T, steps of the window.
        """
        out = np.zeros(self.newest, np.bool_)
        kept = steps - len(asked)
        out[: self.last - self.first] = asked[self.first - kept : self.last - kept]
        if self.first == self.start and self.newest > 1:
            out[1] |= out[0]  # gives the deviation of a neighbour's step
        return out


def span_for(sensors: int, steps: int) -> int:
    """Return L, the steps that the closed form covers."""
    return steps if sensors * steps <= MOST_CELLS else min(steps, max(_LEAST_SPAN, MOST_CELLS // sensors))


def tiles_of(steps: int, span: int, newest: int) -> Iterator[Tile]:
    """Yield tiles whose filled steps cover the newest ones exactly once, newest first."""
    last, oldest, start = steps, steps - newest, steps - span
    while last > oldest:
        # A tile fills the steps from its first quarter on; the oldest tile fills its first quarter too.
        first = max(oldest, start + span // 4 if start > 0 else 0)
        yield Tile(start, first, last, start + span - first)
        last = first
        start = max(0, last - span + span // 4)
