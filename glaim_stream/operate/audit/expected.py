"""The observed rows that a partition's input promises, as columns by key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.readings import Readings
from glaim_stream.core.step_means import mean_of_each
from glaim_stream.operate.audit.arrivals import Arrivals
from glaim_stream.operate.audit.keys import Bools, Ints, Keys, run_starts

_WARM_UP_READINGS = 1000


@dataclass(frozen=True, slots=True)
class Expected:
    """Keys with a reading, ascending; arrays of length k."""

    key: Ints
    value: NDArray[np.float64]
    mean: Bools  # the value is a mean
    first_offset: Ints  # lowest offset of the key's readings
    last_offset: Ints
    start: Ints  # place of the key's first reading in `sorted_value`
    count: Ints  # number of readings
    on_time: Bools  # at least one reading came before its step closed
    sorted_value: NDArray[np.float64]  # values of all readings by key
    event_time_ms: Ints  # time of the reading that stands for the step; for a mean, the latest time
    quality: NDArray[np.int8]  # quality of that reading; for a mean, the worst quality

    def readings_of(self, place: int) -> NDArray[np.float64]:
        """Values of the readings of the key at a place."""
        start = int(self.start[place])
        return self.sorted_value[start : start + int(self.count[place])]


def expected_rows(arrivals: Arrivals, keys: Keys) -> Expected:
    """The value of each step by its usable readings: the last one by event time, or their mean."""
    usable = arrivals.usable
    readings, on_time = arrivals.readings.where(usable), arrivals.on_time[usable]
    columns = keys.columns
    unsorted = keys.of(readings.group, readings.sensor, arrivals.step[usable])
    # By event time inside the step, then by arrival: the last one stands for the step.
    order = np.lexsort((np.arange(len(unsorted)), readings.event_time_ms, unsorted))
    key, value, offset, quality = (
        unsorted[order],
        readings.value[order],
        readings.offset[order],
        readings.quality[order],
    )
    start = run_starts(key)
    if len(start) == 0:
        none = np.empty(0, np.int64)
        blank = np.empty(0, np.bool_)
        return Expected(none, value, blank, none, none, none, none, blank, value, none, quality)
    count = np.diff(np.append(start, len(key)))
    last = start + count - 1
    mean = columns.mean[readings.model[order][start]]
    # One by one in order of arrival, as the windows do: reduceat would add pairwise, with other last bits.
    turning = columns.direction[readings.model, readings.sensor] if columns.direction.any() else None
    means = mean_of_each(readings.value, np.searchsorted(key[start], unsorted), len(start), turning)[order][start]
    return Expected(
        key[start],
        np.where(mean, means, value[last]),
        mean,
        np.minimum.reduceat(offset, start),
        np.maximum.reduceat(offset, start),
        start,
        count,
        np.logical_or.reduceat(on_time[order], start),
        value,
        readings.event_time_ms[order][last],
        np.where(mean, np.maximum.reduceat(quality, start), quality[last]),
    )


class RangeStart:
    """The newest time of the first thousand readings of a range."""

    def __init__(self) -> None:
        self._left = _WARM_UP_READINGS
        self.newest_ms: int | None = None

    def add(self, readings: Readings) -> None:
        """Add the next readings in order of arrival."""
        first = readings.event_time_ms[: self._left]
        if len(first):
            self._left -= len(first)
            newest_ms = int(first.max())
            self.newest_ms = newest_ms if self.newest_ms is None else max(self.newest_ms, newest_ms)


def surely_whole(expected: Expected, first_ms: int | None, keys: Keys) -> Bools:
    """True where all readings of the key must lie within the range that was read; bool [k].

    Args:
        expected: the keys.
        first_ms: newest time of the range's first readings (`RangeStart`); None if nothing lies before the range.
        keys: keys of the partition.
    """
    if first_ms is None:
        return np.ones(len(expected.key), np.bool_)
    columns = keys.columns
    sure_from = (first_ms + columns.lateness_ms) // columns.step_ms + 1
    whole: Bools = keys.step(expected.key) >= sure_from[keys.model(expected.key)]
    return whole
