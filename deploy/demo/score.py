"""Errors of every contender on the same hidden cells. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from deploy.demo.grid import Bools, Floats

# Name -> label, in the order of tables. "model" is what the worker published; "gaussian" exists where the model has a
# closed form.
CONTENDERS = {"model": "model", "gaussian": "gaussian", "interpolation": "interpolation", "last_value": "last value"}


class SensorDocument(TypedDict):
    """A `SensorScore` in summary.json."""

    unit: str
    cells: int
    mae: dict[str, float | None]


class ScoreDocument(TypedDict):
    """A `Score` in summary.json."""

    cells: int
    mae: dict[str, float | None]
    by_sensor: dict[str, SensorDocument]


@dataclass(frozen=True)
class SensorScore:
    """Mean absolute errors of one sensor, in its unit, by contender; NaN if no cell counts."""

    sensor: str
    unit: str
    cells: int
    mae: Mapping[str, float]


@dataclass(frozen=True)
class Score:
    """Mean absolute errors by contender, in standard deviations of each sensor in the training data."""

    cells: int
    mae: Mapping[str, float]
    sensors: Sequence[SensorScore]

    def document(self) -> ScoreDocument:
        """The score for summary.json; errors without a cell are null."""
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
    """Score the contenders on the hidden cells for which all of them have an estimate.

    Args:
        truth: [G, C, T], the hidden values; NaN elsewhere.
        estimates: Contender -> [G, C, T], NaN where it has no estimate.
        eligible: bool [G, C, T], the cells that may count, such as those that were filled.
        sensors: The C sensor ids.
        units: Unit of each sensor.
        deviation: [C], standard deviation of each sensor, which makes the errors of different sensors comparable.
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


def contenders(mae: Mapping[str, float | None]) -> dict[str, str]:
    """Name and label of the contenders of a score, in the order of tables."""
    return {name: label for name, label in CONTENDERS.items() if name in mae}


def gain_percent(mae: Mapping[str, float]) -> float:
    """Difference of the model's error to the better baseline's, in percent; negative is better, NaN is unknown."""
    baseline = min(mae["interpolation"], mae["last_value"])
    return 100 * (mae["model"] / baseline - 1) if baseline > 0 else math.nan


def coverage(truth: Floats, lower: Floats, upper: Floats) -> float:
    """Share of hidden values inside their interval; NaN if there is no interval."""
    cells = np.isfinite(truth) & np.isfinite(lower) & np.isfinite(upper)
    return _mean(((truth >= lower) & (truth <= upper))[cells].astype(np.float32))


def _mean(errors: NDArray[np.floating]) -> float:
    return float(np.mean(errors, dtype=np.float64)) if errors.size else float("nan")


def _rounded(errors: Mapping[str, float]) -> dict[str, float | None]:
    return {name: round(error, 5) if np.isfinite(error) else None for name, error in errors.items()}
