"""Bands of interpolation for sensors that mostly rest or move on straight lines.

Where nine of ten hidden readings lie exactly on the line, the quantile of their errors is 0, and a band of that width
would promise that the filled value is the true one. That holds while the sensor rests and fails while it moves. The
readings around a hole tell the two apart: if they differ, the band is as wide as lines between such readings need.
To find this width, every reading is compared with the line between its neighbours, since the few readings hidden on
purpose may all lie where the sensor rests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form import Kind, differences, last_value
from glaim_stream.tables.fitted import SensorFits
from glaim_stream.tables.lines import lines

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]

_NOTHING = 1e-12  # share of the largest reading: smaller errors are rounding


def apart(values: Doubles, observed: Bools) -> Bools:
    """Cells [C, N] between two different readings."""
    before = last_value(values, observed)
    after = last_value(values[:, ::-1], observed[:, ::-1])[:, ::-1]
    return np.asarray((before < after) | (before > after))


def with_moves(fitted: SensorFits, series: Sequence[Doubles], units: Sequence[Doubles]) -> SensorFits:
    """Return a fit with widths of bands for sensors whose errors show none.

    A constant sensor keeps bands without a width.

    Args:
        fitted: fit with bands from the errors at hidden cells.
        series: readings of each group, float64 [C, N]; NaN where missing.
        units: units of each group, float64 [C].
    """
    line_width, moving_width = fitted.line_width.copy(), fitted.moving_width.copy()
    for place, kind in enumerate(fitted.kinds):
        rows = [values[place] / unit[place] for values, unit in zip(series, units, strict=True)]
        readings = np.concatenate([row[~np.isnan(row)] for row in rows]) if rows else np.empty(0)
        nothing = _NOTHING * np.abs(readings).max(initial=0.0)
        if not moving_width[place] <= nothing:
            continue
        steps = np.diff(np.unique(readings))
        steps = steps[steps > nothing]
        if not len(steps):
            continue
        errors, moving = (np.concatenate(each) for each in zip(*(_errors(row, kind) for row in rows), strict=True))
        if line_width[place] <= nothing and len(errors):
            line_width[place] = np.sqrt(np.mean(errors**2))
        resolution = steps.min() / 2 / np.sqrt(0.5)  # width of a hole of one step between two readings
        moving_width[place] = max(
            np.quantile(errors[moving], 0.9) if moving.any() else 0.0, line_width[place], resolution
        )
    return replace(fitted, line_width=line_width, moving_width=moving_width)


def _errors(row: Doubles, kind: Kind | None) -> tuple[Doubles, Bools]:
    """Errors of lines at the readings of a series [N], in the scales of `Lines`, and which lie between moves.

    Each reading is compared with the line between its two neighbours.
    """
    seen = np.flatnonzero(~np.isnan(row))
    errors, moving = [], []
    for first in (0, 1):
        observed = np.zeros((1, len(row)), np.bool_)
        observed[0, seen[first::2]] = True
        line = lines(row[None], observed, [kind])
        hidden = seen[1 - first :: 2]
        between = hidden[(hidden > seen[first::2].min(initial=len(row))) & (hidden < seen[first::2].max(initial=-1))]
        between = between[np.isfinite(line.scale[0, between])]
        off = np.abs(differences([kind], line.values, row[None]))[0, between]
        errors.append(off / line.scale[0, between])
        moving.append(apart(row[None], observed)[0, between])
    return np.concatenate(errors), np.concatenate(moving)
