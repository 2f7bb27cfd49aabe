"""Measurements and choices of a fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form.dark_steps import DarkSteps
from glaim_stream.form.form import ClosedForm
from glaim_stream.form.kinds import Kind, carried_value, differences, simple_value
from glaim_stream.form.search import Validation

Doubles = NDArray[np.float64]

MIX, INTERPOLATION, LAST_VALUE = "closed form", "interpolation", "last value"


@dataclass(frozen=True)
class Report:
    """Choices of a fit and errors on hidden cells of validation windows.

    errors: mean squared errors by method and case, in squared deviations of each group's sensor; the methods are the
        variants, the closed form itself, interpolation and last value. Empty without validation.
    choices: number of alternatives that were compared on the validation windows.
    kinds: kinds of sensors that are not plain numbers.
    relations: number of exact relations.
    recent: number of steps from which the newest ones are filled; None: from whole windows.
    dark_steps: steps without any reading that get the last value or the line; None: there are none.
    """

    training_windows: int
    validation_windows: int
    errors: dict[str, dict[str, float]]
    weights: dict[str, float]
    shrinkage: dict[str, float]
    ridge: dict[str, float]
    distance: dict[str, float]
    calibration: float
    choices: int
    kinds: dict[str, Kind]
    relations: int
    recent: int | None
    dark_steps: DarkSteps | None


@dataclass(frozen=True)
class Check:
    """Answers of a closed form at the hidden cells of one case, flat over the cells.

    error, deviation: results of the form, in units; a deviation not from the covariances is 0.
    last, line: errors of the last value, and of the line between two readings or its substitute
        (`kinds.simple_value`).
    sensor: int64, index of the cell's sensor.
    """

    error: Doubles
    deviation: Doubles
    last: Doubles
    line: Doubles
    sensor: NDArray[np.int64]


def check(form: ClosedForm, validation: Validation) -> dict[str, Check]:
    """Return a closed form's answers by case, without cells that it or a baseline declines."""
    windows, found = validation.windows, {}
    for case, hidden in validation.hidden.items():
        seen = windows.observed & ~hidden
        filled = form.fill(windows.values, seen, windows.end_ms)
        known = np.where(seen, windows.values, np.nan)
        last, line = carried_value(known, seen), simple_value(form.kinds, windows.values, seen)
        usable = hidden & np.isfinite(filled.mean) & np.isfinite(last)
        unit = np.broadcast_to(validation.unit[:, :, None], hidden.shape)[usable]
        error, last, line = (
            differences(form.kinds, each, windows.values)[usable] / unit for each in (filled.mean, last, line)
        )
        deviation = filled.deviation[usable] / unit
        if len(form.relations.constants):
            deviation[form.relations.complete(windows.values, seen).apart[usable]] = 0.0
        found[case] = Check(error, deviation, last, line, np.nonzero(usable)[1])
    return found
