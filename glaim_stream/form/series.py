"""Series of many groups, and the windows that are cut from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_COMPARED_GROUPS = 64


@dataclass(frozen=True)
class FormWindows:
    """Windows [n, C, T] with their observed cells, groups [n] and times of their newest steps [n]."""

    values: Doubles
    observed: Bools
    group: Ints
    end_ms: Ints

    def __len__(self) -> int:
        return len(self.group)

    def newest(self, steps: int) -> FormWindows:
        """The same windows without their older steps."""
        return FormWindows(self.values[:, :, -steps:], self.observed[:, :, -steps:], self.group, self.end_ms)

    def some(self, most: int) -> FormWindows:
        """At most `most` windows, at even distances."""
        every = slice(None, None, -(-len(self) // most) if len(self) else 1)
        return FormWindows(self.values[every], self.observed[every], self.group[every], self.end_ms[every])


@dataclass(frozen=True)
class FormSeries:
    """Rows of all groups on one time axis.

    values: float64 [g, C, N], sensor units; 0 where not observed.
    observed: bool [g, C, N].
    """

    values: Doubles
    observed: Bools
    start_ms: int
    step_ms: int

    @property
    def steps(self) -> int:
        """N."""
        return int(self.values.shape[2])

    @property
    def times_ms(self) -> Ints:
        """Time of each step, int64 [N]."""
        return self.start_ms + self.step_ms * np.arange(self.steps)

    def rows(self, first: int, last: int) -> FormSeries:
        """Steps `[first, last)`."""
        start_ms = self.start_ms + first * self.step_ms
        return FormSeries(self.values[:, :, first:last], self.observed[:, :, first:last], start_ms, self.step_ms)

    def deviations(self) -> Doubles:
        """Deviation of each group's sensor, float64 [g, C]; instead of 0 the sensor's median one, or 1."""
        count = np.maximum(self.observed.sum(axis=2), 1)
        mean = self.values.sum(axis=2) / count
        square = np.square(self.values - mean[:, :, None]).sum(axis=2, where=self.observed) / count
        deviation = np.where(square > 1e-18 * mean**2, np.sqrt(square), 0.0)
        usual = np.array([np.median(each[each > 0]) if (each > 0).any() else 1.0 for each in deviation.T])
        unit: Doubles = np.where(deviation > 0, deviation, usual)
        return unit

    def independent_groups(self) -> float:
        """The number, from 1 to g, of independent groups whose rows would tell as much about covariances as these.

        Products of two cells in two groups with the correlation r have the correlation r². So the mean over g groups
        varies as much as a mean over g / (1 + (g - 1) r²) independent ones, with the mean r² of all pairs and sensors.
        """
        groups = len(self.values)
        if groups == 1:
            return 1.0
        some = slice(None, None, -(-groups // _COMPARED_GROUPS))
        found = []
        for sensor in range(self.values.shape[1]):  # one by one, to save memory
            values, seen = self.values[some, sensor], self.observed[some, sensor].astype(np.float64)
            mean = (values * seen).sum(axis=1) / np.maximum(seen.sum(axis=1), 1.0)
            off = (values - mean[:, None]) * seen
            together = off**2 @ seen.T  # squares of each group, where the other group was observed too
            squares = together * together.T
            known = (squares > 0.0) & ~np.eye(len(off), dtype=np.bool_)
            found.append((off @ off.T)[known] ** 2 / squares[known])
        every = np.concatenate(found)
        return groups / (1.0 + (groups - 1) * float(every.mean())) if len(every) else float(groups)

    def windows(self, steps: int, most: int) -> FormWindows:
        """Windows at even distances, about `most` of all groups together, without windows that observed nothing."""
        groups, _, count = self.values.shape
        starts = max(0, count - steps + 1)
        stride = max(1, -(-groups * starts // most))
        # Each group begins at another offset, so that many groups with a large stride cover all phases of the day.
        pairs = [(group, at) for group in range(groups) for at in range(starts - 1 - group % stride, -1, -stride)]
        group, start = np.array(pairs, np.int64).reshape(-1, 2).T
        place = start[:, None] + np.arange(steps)
        observed = self.observed[group[:, None], :, place].transpose(0, 2, 1)
        some = observed.any(axis=(1, 2))
        group, start, place = group[some], start[some], place[some]
        values = self.values[group[:, None], :, place].transpose(0, 2, 1)
        end_ms = self.start_ms + self.step_ms * (start + steps - 1)
        return FormWindows(np.ascontiguousarray(values), np.ascontiguousarray(observed[some]), group, end_ms)
