"""Units of groups that have the same sensor in different units, or with very different movement.

Errors of groups are pooled to choose methods and widths of bands. If one group counts in pascals and another in bar,
the first would decide for both. So if the groups of a sensor move very differently, its errors are divided by the mean
move of the sensor in the group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form import Kind

Doubles = NDArray[np.float64]

_ALIKE = 5.0  # largest ratio of groups' moves at which errors need no division
_LEAST_MOVES = 20  # moves that a group's unit is found from


def common_units(series: Sequence[Doubles], kinds: Sequence[Kind | None]) -> Doubles:
    """The unit of each sensor [C] in groups too small to show their own; NaN where groups move alike.

    Args:
        series: readings of each group, float64 [C, N]; NaN where missing.
        kinds: kinds of the C sensors.
    """
    out = np.full(len(kinds), np.nan)
    moves = np.stack([_moves(values, kinds) for values in series]) if series else np.zeros((0, len(kinds)))
    for sensor in range(len(kinds)):
        known = moves[:, sensor][~np.isnan(moves[:, sensor])]
        if len(known) > 1 and known.max() > _ALIKE * known.min():
            out[sensor] = np.exp(np.log(known).mean())
    return out


def units_of(values: Doubles, kinds: Sequence[Kind | None], common: Doubles) -> Doubles:
    """The units of a group's sensors [C], which errors are divided by; 1 where groups move alike.

    Args:
        values: float64 [C, N], readings of the group; NaN where missing.
        kinds: kinds of the C sensors.
        common: result of `common_units`.
    """
    if np.isnan(common).all():
        return np.ones(len(common))
    own = _moves(values, kinds)
    return np.where(np.isnan(common), 1.0, np.where(np.isnan(own), common, own))


def _moves(values: Doubles, kinds: Sequence[Kind | None]) -> Doubles:
    """Mean absolute move of each sensor between readings [C], over the root of the steps; NaN if unknown.

    States and directions have the same unit everywhere. A fall of a meter does not count as a move.
    """
    out = np.full(len(kinds), np.nan)
    for sensor, kind in enumerate(kinds):
        if kind in (Kind.STATE, Kind.ANGLE):
            continue
        places = np.flatnonzero(~np.isnan(values[sensor]))
        moves = np.diff(values[sensor, places]) / np.sqrt(np.diff(places))
        moves = moves[moves >= 0.0] if kind is Kind.METER else np.abs(moves)
        if len(moves) >= _LEAST_MOVES and moves.any():
            out[sensor] = moves.mean()
    return out
