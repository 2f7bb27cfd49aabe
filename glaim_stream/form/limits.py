"""Floors and ceilings that a sensor's readings never cross, so its filled values must not cross them either.

A sensor without a negative reading has the floor 0, and one without a positive reading the ceiling 0: no concentration
is negative. If all readings are at hand and a sensor returns to its least one again and again, as rain does to 0 and a
closed valve to 4 mA, that reading is a floor too; a largest reading of this kind is a ceiling (100 % humidity). A model
knows only the range of its training readings. A direction has the ends of its circle as limits.

One odd reading takes no limit away: fewer than 1 in 1,000, each alone between others within the limit.

A limit gives way to readings otherwise: if a reading of the series or of the filled window has crossed it, as the
first frost of a year does, that reading becomes the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.angles import TURN, are_signed, start_of

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

_LEAST_VISITS = 3  # separate runs of cells at the limit
_LEAST_SHARE = 0.005  # least share of the readings at the limit
_ODD = 0.001  # share of the readings beyond 0; fewer, each between others, are odd


@dataclass(frozen=True)
class Limits:
    """Lowest and highest possible values, float64 [..., C]; infinite where there is no limit."""

    lowest: Doubles
    highest: Doubles

    @classmethod
    def of_range(cls, least: Doubles, most: Doubles) -> Limits:
        """The limit 0 of sensors whose readings, from `least` to `most`, did not cross it, float64 [C].

        A sensor that always had the same value, or none, has no limits.
        """
        known = most > least
        return cls(np.where(known & (least >= 0.0), 0.0, -np.inf), np.where(known & (most <= 0.0), 0.0, np.inf))

    def of_states(self, state: Bools, least: Doubles, most: Doubles) -> Limits:
        """These limits, but states, bool [C], are limited to the range of their training, which has every state."""
        return Limits(np.where(state, least, self.lowest), np.where(state, most, self.highest))

    def of_circles(self, direction: Bools, least: Doubles, most: Doubles) -> Limits:
        """These limits, except that directions in degrees, bool [C], are limited to the ends of their circle.

        The circle is -180 to 180 if the readings, from `least` to `most`, are in it and go below 0.
        """
        start = start_of(are_signed(least, most))
        return Limits(np.where(direction, start, self.lowest), np.where(direction, start + TURN, self.highest))

    def around(self, values: Doubles, observed: Bools) -> Limits:
        """Limits [n, C] that the observed cells of windows [n, C, T] do not cross."""
        least = np.where(observed, values, np.inf).min(axis=2)
        most = np.where(observed, values, -np.inf).max(axis=2)
        return Limits(np.minimum(self.lowest, least), np.maximum(self.highest, most))

    def slice(self, start: int, stop: int) -> Limits:
        """The limits of some of the windows."""
        return Limits(self.lowest[start:stop], self.highest[start:stop])

    def keep(self, values: Doubles) -> Doubles:
        """Values [..., C, N] within the limits; NaN stays NaN."""
        kept: Doubles = np.clip(values, self.lowest[..., None], self.highest[..., None])
        return kept

    def widened(self, series: Sequence[Doubles]) -> Limits:
        """Limits that the readings [C, N] of other series, but for odd ones, do not cross."""
        lowest, highest = self.lowest.copy(), self.highest.copy()
        for place in range(len(lowest)):
            rows = [values[place][~np.isnan(values[place])] for values in series]
            least, most = _without_odd(rows, lowest[place]), _without_odd([-row for row in rows], -highest[place])
            lowest[place] = min([lowest[place], *(float(row.min()) for row in least if len(row))])
            highest[place] = max([highest[place], *(-float(row.min()) for row in most if len(row))])
        return Limits(lowest, highest)


def range_of(series: Sequence[Doubles], sensors: int) -> tuple[Doubles, Doubles]:
    """Return the least and the largest reading of each sensor, [C] each, in the readings [C, N] of all groups.

    Sensors without a reading get inf and -inf.
    """
    whole = Limits(np.full(sensors, np.inf), np.full(sensors, -np.inf)).widened(series)
    return whole.lowest, whole.highest


def limits_of(series: Sequence[Doubles]) -> Limits:
    """Find the limits of sensors from the readings [C, N] of all groups, NaN where missing."""
    lowest = np.array([_floor([values[place] for values in series]) for place in range(len(series[0]))])
    highest = np.array([-_floor([-values[place] for values in series]) for place in range(len(series[0]))])
    return Limits(lowest, highest)


def _without_odd(rows: list[Doubles], floor: float) -> list[Doubles]:
    """The readings of a sensor without those below the floor, if they are few and each is alone."""
    below = [row < floor for row in rows]
    count = sum(int(each.sum()) for each in below)
    alone = not any((each[1:] & each[:-1]).any() for each in below)
    odd = 0 < count < _ODD * sum(map(len, rows)) and alone
    return [row[~each] for row, each in zip(rows, below, strict=True)] if odd else rows


def _floor(rows: list[Doubles]) -> float:
    seen = _without_odd([row[~np.isnan(row)] for row in rows], 0.0)
    count = sum(len(each) for each in seen)
    if not count:
        return -np.inf
    least = min(float(each.min()) for each in seen if len(each))
    touching = [each == least for each in seen]
    visits = sum(int(np.count_nonzero(each[1:] & ~each[:-1])) + int(each[:1].any()) for each in touching)
    touches = sum(int(each.sum()) for each in touching)
    if visits >= _LEAST_VISITS and touches >= _LEAST_SHARE * count:
        return least
    return 0.0 if least >= 0.0 else -np.inf
