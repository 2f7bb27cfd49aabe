"""Errors on hidden cells: every contender on the very same cells. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deploy.demo.grid import Bools, Floats


@dataclass(frozen=True)
class SensorScore:
    """Mean absolute errors of one sensor, in its unit, by contender; NaN without a cell."""

    sensor: str
    unit: str
    cells: int
    mae: Mapping[str, float]


@dataclass(frozen=True)
class Score:
    """Mean absolute errors by contender, in units of each sensor's deviation in the training data."""

    cells: int
    mae: Mapping[str, float]
    sensors: Sequence[SensorScore]

    def document(self) -> dict[str, object]:
        """For summary.json; what has no cell is null."""
        return {
            "cells": self.cells,
            "mae": _rounded(self.mae),
            "by_sensor": {
                each.sensor: {"unit": each.unit, "cells": each.cells, "mae": _rounded(each.mae)}
                for each in self.sensors
            },
        }


def score(
    truth: Floats,
    estimates: Mapping[str, Floats],
    *,
    eligible: Bools,
    sensors: Sequence[str],
    units: Sequence[str],
    deviation: NDArray[np.float64],
) -> Score:
    """Score contenders.

    Args:
        truth: [G, C, T], the values that were hidden; NaN elsewhere.
        estimates: by contender, [G, C, T], NaN where it says nothing.
        eligible: bool [G, C, T], cells that may count, such as those that were filled.
        sensors: ids, C of them.
        units: their units.
        deviation: [C], what an error is divided by to be compared between sensors.

    A cell counts only where every contender has an estimate, so that all are measured on the same ones.
    """
    cells = np.isfinite(truth) & eligible
    for estimate in estimates.values():
        cells &= np.isfinite(estimate)
    errors = {name: np.abs(estimate - truth) for name, estimate in estimates.items()}
    per_sensor = [
        SensorScore(
            sensor,
            unit,
            int(cells[:, row].sum()),
            {name: _mean(error[:, row][cells[:, row]]) for name, error in errors.items()},
        )
        for row, (sensor, unit) in enumerate(zip(sensors, units, strict=True))
    ]
    scaled = {name: _mean((error / deviation[None, :, None])[cells]) for name, error in errors.items()}
    return Score(int(cells.sum()), scaled, per_sensor)


def coverage(truth: Floats, lower: Floats, upper: Floats) -> float:
    """Share of hidden values inside the interval given for them; NaN where no interval was given."""
    cells = np.isfinite(truth) & np.isfinite(lower) & np.isfinite(upper)
    return _mean(((truth >= lower) & (truth <= upper))[cells].astype(np.float32))


def _mean(errors: NDArray[np.floating]) -> float:
    return float(np.mean(errors, dtype=np.float64)) if errors.size else float("nan")


def _rounded(errors: Mapping[str, float]) -> dict[str, float | None]:
    return {name: round(error, 5) if np.isfinite(error) else None for name, error in errors.items()}
