"""Errors of the published rows of several ways of filling, against the readings that a load left out.

The ways are compared on the same estimates: those that each of them has published, however far it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.load import FIRST_STEP_MS
from glaim_stream.output import read_rows

Estimate = tuple[str, str, int, int]  # group, sensor, step and revision
Estimates = Mapping[Estimate, float]


def estimates(messages: Iterable[bytes], *, step_ms: int, from_step: int) -> Estimates:
    """The filled values of output messages, from a step of the load on."""
    found: dict[Estimate, float] = {}
    for message in messages:
        rows = read_rows(message)
        rows = rows.filter(pc.and_(pc.invert(rows["observed"]), pc.is_valid(rows["value"])))
        step = ((np.asarray(rows["ts"].cast("int64")) - FIRST_STEP_MS) // step_ms).tolist()
        names = (rows[name].to_pylist() for name in ("group", "sensor"))
        keys = zip(*names, step, rows["revision"].to_pylist(), strict=True)
        found.update((key, value) for key, value in zip(keys, rows["value"].to_pylist(), strict=True)
                     if key[2] >= from_step)  # fmt: skip
    return found


def common(ways: Iterable[Estimates]) -> list[Estimate]:
    """The estimates made by every way, in order."""
    return sorted(set.intersection(*(set(way) for way in ways)))


def mean_error(
    way: Estimates, keys: list[Estimate], truth: NDArray[np.float64], groups: list[str], sensors: list[str]
) -> float | None:
    """The mean absolute error in standard deviations of each sensor; None without estimates.

    Args:
        way: the values.
        keys: the estimates that count.
        truth: [groups, sensors, steps] of the load.
        groups: names, as in the keys.
        sensors: names, as in the keys.
    """
    if not keys:
        return None
    group, sensor, step = np.array([(groups.index(key[0]), sensors.index(key[1]), key[2]) for key in keys]).T
    errors = np.abs(np.array([way[key] for key in keys]) - truth[group, sensor, step])
    return float((errors / truth.std(axis=(0, 2))[sensor]).mean())
