"""Readings of one group on an even grid, and sums over sliding windows that do not depend on a series' start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NEVER = -1
_FINE = 1 << 16  # sums count in parts of a unit, as many as this


@dataclass(frozen=True)
class GridSeries:
    """Readings of C sensors in N successive steps of a grid.

    group: name of the group.
    first: number of the first step; step k begins at `k * step_ms`.
    values: float64 [C, N], sensor units; ignored where not observed.
    observed: bool [C, N].
    offset: float64 [C, N], place of a reading's stamp in its step, in steps; None where the stamps are unknown.
    """

    group: str
    first: int
    step_ms: int
    values: Doubles
    observed: Bools
    offset: Doubles | None = None

    @property
    def steps(self) -> int:
        """N."""
        return int(self.values.shape[1])

    @property
    def sensor_days(self) -> float:
        """Days of all sensors together."""
        return self.values.size * self.step_ms / 86_400_000

    def part(self, start: int, end: int) -> Self:
        """The steps from `start` to before `end`, counted from the first one."""
        cut = slice(max(0, start), max(0, end))
        offset = None if self.offset is None else self.offset[:, cut]
        return type(self)(
            self.group, self.first + cut.start, self.step_ms, self.values[:, cut], self.observed[:, cut], offset
        )


def last_reading(observed: Bools) -> Ints:
    """Return the index of the last reading at or before each step, int64 [C, N]; NEVER before the first one."""
    steps = np.arange(observed.shape[1])
    found: Ints = np.maximum.accumulate(np.where(observed, steps, NEVER), axis=1)
    return found


def before(last: Ints, observed: Bools) -> Ints:
    """Return the index of the reading before the last one at each step, int64 [C, N], or NEVER."""
    previous = np.full(last.shape, NEVER, np.int64)
    previous[:, 1:] = last[:, :-1]
    # At a step without a reading, this is the reading before the last reading's own step.
    out: Ints = np.take_along_axis(previous, np.maximum(last, 0), axis=1)
    return np.where(last == NEVER, NEVER, out)


def sliding_sum(values: Doubles, steps: int) -> Doubles:
    """Return sums over the last `steps` columns [C, N], with the same bits wherever the series begins.

    Values are rounded to 1/65,536, so that sums of whole numbers take the place of sums of floats.
    """
    return of_whole(sliding_count(whole(values), steps))


def whole(values: Doubles) -> Ints:
    """Return values as multiples of 1/65,536; their sums have the same bits in every order."""
    numbers: Ints = np.rint(values * _FINE).astype(np.int64)
    return numbers


def of_whole(numbers: Ints) -> Doubles:
    """Return the values of which `whole` made whole numbers."""
    values: Doubles = numbers / _FINE
    return values


def sliding_count(values: NDArray[np.int64] | Bools, steps: int) -> Ints:
    """Return sums of whole numbers over the last `steps` columns, int64 [C, N]."""
    total: Ints = np.cumsum(values, axis=1, dtype=np.int64)
    out = total.copy()
    out[:, steps:] -= total[:, :-steps]
    return out


def onsets(alarm: Bools, quiet: int) -> Bools:
    """Return the steps at which an alarm begins after at least `quiet` steps without it, bool [C, N]."""
    recent = np.zeros(alarm.shape, np.int64)
    recent[:, 1:] = sliding_count(alarm, quiet)[:, :-1]
    begins: Bools = alarm & (recent == 0)
    return begins
