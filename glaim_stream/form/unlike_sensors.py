"""Sensors with large errors by every method, such as rain, which must not choose constants for the others.

All sensors share shrinkage, ridge, distance and variants, which are chosen by their squared errors together. Errors of
rain are as large as its deviation, those of a temperature a twentieth of its deviation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form.kinds import Kind, are
from glaim_stream.form.report import Check
from glaim_stream.form.search import CONSTANTS

Doubles = NDArray[np.float64]
Answers = Mapping[str, Check]  # by case

_FILLED = (Kind.NUMBER, Kind.METER)  # kinds that the Gaussian fills
_LEAST_ERROR = 1e-6  # error of a line, in deviations: rounding, as in copies, must not count more


def other_weight(found: Answers, kinds: Sequence[Kind]) -> Doubles | None:
    """Return other weights of the sensors' errors [C] if some sensors have chosen for others; None: they have not.

    Sensors that the Gaussian does not fill after all do not count any more. All others are measured in deviations of
    their line's errors if one of them is filled worse than by its line, or is hardly better and makes most of the
    squared errors.

    Args:
        found: answers of a first form.
        kinds: kinds of its C sensors.
    """
    sensor = np.concatenate([each.sensor for each in found.values()])
    error, line = (
        np.abs(np.concatenate([getattr(each, name) for each in found.values()])) for name in ("error", "line")
    )
    filled = are(kinds, *_FILLED)
    much = CONSTANTS.much_error * np.sum(error[filled[sensor]] ** 2)
    by_line, ruled = np.zeros(len(kinds)), False
    for place in np.flatnonzero(filled).tolist():
        cells = sensor == place
        if line[cells].any():
            left = error[cells].mean() / line[cells].mean()
            ruled |= bool(left > 1.0 or (left > CONSTANTS.hardly_better and np.sum(error[cells] ** 2) > much))
            by_line[place] = 1.0 / max(float(np.sqrt(np.mean(line[cells] ** 2))), _LEAST_ERROR)
    if ruled and filled.sum() > 1:
        return by_line
    return filled.astype(np.float64) if Kind.CARRIED in kinds and filled.any() else None


def gain(one: Answers, other: Answers, kinds: Sequence[Kind]) -> float:
    """Return the gain of the other form: the fall of the log mean absolute error, mean over the sensors that it fills.

    Args:
        one: answers of a first form.
        other: answers of the other form.
        kinds: kinds of the other form's sensors.
    """
    gains = []
    for place in (place for place, kind in enumerate(kinds) if kind in _FILLED):
        before, after = (
            np.concatenate([np.abs(each.error[each.sensor == place]) for each in found.values()])
            for found in (one, other)
        )
        if len(before):
            gains.append(float(np.log(before.mean() + 1e-12) - np.log(after.mean() + 1e-12)))
    return float(np.mean(gains)) if gains else 0.0
