"""Order, span and step of the times of a file's rows, and the number that repeat, run back or are absent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.times import NO_TIME

_ROUND = 0.005  # share of a step by which it may differ from a round number


@dataclass(slots=True)
class Order:
    """Order, span and step of the rows' times.

    step_ms: usual time between two stamps of a series; 0 without any.
    duplicates: number of rows whose series and time occurred before.
    out_of_order, lateness_ms: number of rows older than one before them in their series, and the largest lateness.
    untimed: number of rows without a time.
    """

    first_ms: int = NO_TIME
    last_ms: int = NO_TIME
    step_ms: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    lateness_ms: int = 0
    untimed: int = 0


def order_of(
    times_ms: NDArray[np.int64], group_of_row: NDArray[np.int64], sensor_of_row: NDArray[np.int64] | None
) -> Order:
    """Find the order of the rows of a file.

    Args:
        times_ms: int64 [R], NO_TIME where a row has none.
        group_of_row: int64 [R], codes of the rows' groups.
        sensor_of_row: int64 [R], codes of the rows' sensors if each row has one reading.
    """
    order = Order()
    known = times_ms != NO_TIME
    order.untimed = int((~known).sum())
    if not known.any():
        return order
    times, groups = times_ms[known], group_of_row[known]
    if sensor_of_row is not None:
        groups = groups * (int(sensor_of_row.max()) + 1) + sensor_of_row[known]
    order.first_ms, order.last_ms = int(times.min()), int(times.max())
    by_group = np.argsort(groups, kind="stable")
    times, groups = times[by_group], groups[by_group]
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    for start, end in zip(starts, [*starts[1:], len(times)], strict=True):
        part = times[start:end]
        newest = np.maximum.accumulate(part)
        late = newest - part
        order.out_of_order += int((late > 0).sum())
        order.lateness_ms = max(order.lateness_ms, int(late.max()))
        order.duplicates += len(part) - len(np.unique(part))
    sorted_at = np.lexsort((times, groups))
    gaps = np.diff(times[sorted_at])[np.diff(groups[sorted_at]) == 0]
    gaps = gaps[gaps > 0]
    if len(gaps):
        order.step_ms = _usual(gaps)
    return order


def _usual(gaps: NDArray[np.int64]) -> int:
    """The usual time between two stamps; rounded to whole minutes or seconds if the clock jitters."""
    steps, counts = np.unique(gaps, return_counts=True)
    usual, share, median = int(steps[np.argmax(counts)]), counts.max() / len(gaps), int(np.median(gaps))
    if share <= 0.5 and (np.abs(gaps - median) <= _ROUND * median).mean() > 0.5:
        for unit in (60_000, 1_000):
            near = round(median / unit) * unit
            if near and abs(near - median) <= _ROUND * median:
                return near
    return usual if share > 0.2 else median
