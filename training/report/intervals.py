"""Coverage of the intervals: the residual quantiles of the validation part, checked on gaps of the test part.

An interval is `imputed + lower` to `imputed + upper`, with the residual quantiles of the sensor at the first measured
gap age that is not below its own, as in a worker, which also widens an interval to include its value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.contract import ResidualQuantiles
from training.report.gaps import Errors

Reals = NDArray[np.float64]


def interval(
    quantiles: ResidualQuantiles, std: Reals, newest: NDArray[np.bool_], age: NDArray[np.int64],
    sensor: NDArray[np.int64],
) -> tuple[Reals, Reals]:  # fmt: skip
    """Return the lower and upper bound of truth minus imputed for each cell [N], in deviations; lower <= 0 <= upper."""
    column = columns(quantiles, age)
    sides = []
    for side in (0, 1):
        tables = [quantiles.table(newest=kind)[side][sensor, column] for kind in (False, True)]
        sides.append(np.where(newest, tables[1], tables[0]) / std[sensor])
    return np.minimum(sides[0], 0.0), np.maximum(sides[1], 0.0)


def columns(quantiles: ResidualQuantiles, age: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the column of the quantiles' tables for each gap age: the first measured age at or above it."""
    ages = np.array(quantiles.gap_ages)
    found: NDArray[np.int64] = np.minimum(np.searchsorted(ages, age), len(ages) - 1)
    return found


def coverage(
    errors: Mapping[str, Errors], quantiles: ResidualQuantiles, std: Reals, sensors: Sequence[str]
) -> dict[str, Any]:
    """Return the share of test errors inside their interval by missing sensors and place: total, by gap age, by sensor.

    `width` is the mean width of the intervals, in deviations. None means that there was no error to count.
    """
    result: dict[str, Any] = {}
    for who, found in errors.items():
        lower, upper = interval(quantiles, std, found.newest, found.age, found.sensor)
        inside = (found.error >= lower) & (found.error <= upper)
        column = columns(quantiles, found.age)
        result[who] = {}
        for place, here in (("interior", ~found.newest), ("edge", found.newest)):
            by_age = [_share(inside, upper - lower, here & (column == a)) for a in range(len(quantiles.gap_ages))]
            by_sensor = {s: _share(inside, upper - lower, here & (found.sensor == c)) for c, s in enumerate(sensors)}
            result[who][place] = {**_share(inside, upper - lower, here), "by_age": by_age, "by_sensor": by_sensor}
    low, high = quantiles.levels
    return {"levels": [low, high], "nominal": high - low, "gap_ages": quantiles.gap_ages, "coverage": result}


def _share(inside: NDArray[np.bool_], width: Reals, which: NDArray[np.bool_]) -> dict[str, Any]:
    cells = int(which.sum())
    if cells == 0:
        return {"cells": 0, "inside": None, "width": None}
    return {"cells": cells, "inside": float(inside[which].mean()), "width": float(width[which].mean())}
