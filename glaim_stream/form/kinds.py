"""Kinds of sensors, recognised by their values: most kinds cannot be interpolated along a straight line.

    number  filled by the closed form
    state   a few distinct values, such as a valve's: a fill between two of them means nothing
    angle   a direction in degrees that goes around its circle, 0 to 360 or -180 to 180: the middle of 359 and 1 is 0
    meter   rises only, and may start again, also every midnight: no line leads across a reset
    carried the closed form is worse than the last value on validation windows, as with rain that is mostly 0

Holes of states get the last value before them (or the first one after), and holes of angles a direction on the shorter
arc between two readings. Holes of carried sensors get the line between two readings, which on Beijing's rain has two
thirds of the last value's squared error. So do holes of a meter in windows with a reset; across the reset itself they
get the last value. Holes without a later reading all get the last one. States and angles without an observed cell in
the window are declined.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core import angles
from glaim_stream.core.angles import ALMOST, TURN, around, start_of
from glaim_stream.form.baselines import interpolation, last_value

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

_MOST_STATES = 5
_READINGS_PER_STATE = 20
_LEAST_READINGS = 40
_FEW_READINGS = 100  # with fewer readings, a direction must have run through its ends more than twice
_LEAST_SPREAD = 0.1  # least spread of the readings below north, as a share of the spread above
_LEAST_IN_A_QUARTER = 0.01  # least share of a direction's readings in each quarter but the one around -180 and 180
_MANY_TURNS = 0.1  # share of the steps through -180 and 180 that counts as many
_FLOOR = 0.02  # share of a meter's range; as low as that it has begun again
_RISES_PER_FALL = 3
_RESET = 0.5  # share of a meter's range; a smaller fall is noise


class Kind(StrEnum):
    """Kind of a sensor, which decides how its holes are filled."""

    NUMBER = "number"
    STATE = "state"
    ANGLE = "angle"
    METER = "meter"
    CARRIED = "carried"


def are(kinds: Sequence[Kind | None], *wanted: Kind | None) -> Bools:
    """Return the sensors of the wanted kinds, bool [C]; the kind None means unknown."""
    return np.array([kind in wanted for kind in kinds], np.bool_)


def with_directions(kinds: Sequence[Kind] | None, directions: Bools | None) -> Sequence[Kind] | None:
    """The kinds of sensors, with declared directions [C] as angles; None: all are numbers, or none is declared."""
    if directions is None:
        return kinds
    known = [Kind.NUMBER] * len(directions) if kinds is None else kinds
    return [Kind.ANGLE if turns else kind for kind, turns in zip(known, directions.tolist(), strict=True)]


def kind_of(values: Doubles, observed: Bools) -> Kind:
    """Return the kind of a sensor.

    Args:
        values: float64 [g, N], one row a group.
        observed: bool [g, N].
    """
    seen = values[observed]
    if len(seen) < _LEAST_READINGS:
        return Kind.NUMBER
    distinct = np.unique(seen)
    if 1 < len(distinct) <= _MOST_STATES and len(seen) >= _READINGS_PER_STATE * len(distinct):
        return Kind.STATE
    span = distinct[-1] - distinct[0]
    changes = _changes(values, observed)
    degrees = span > 270.0 and (distinct[-1] <= TURN if distinct[0] >= 0.0 else _goes_round(distinct, changes, seen))
    if degrees and _turns(values, observed, least=1 if len(seen) >= _FEW_READINGS else 3):
        return Kind.ANGLE
    falls = changes[changes < 0]
    resets = len(falls) <= max(1.0, 0.01 * len(changes)) and falls.max(initial=-np.inf) < -_RESET * span
    if resets and (changes > 0).mean() > 0.5:
        return Kind.METER
    return Kind.METER if _begins_again(values, observed, distinct[0], span) else Kind.NUMBER


def _begins_again(values: Doubles, observed: Bools, floor: float, span: float) -> bool:
    """Whether a sensor only rises, often by several readings, and falls to its lowest value alone.

    So does the energy or rain of a day, which begins anew each midnight: of readings every half hour 2 % fall, after
    a dull day by a small part of the range. What is switched on and off rises once for each fall. Only readings of
    steps that follow each other count, because a gap may hide how deep it fell.
    """
    both = observed[:, 1:] & observed[:, :-1]
    before, after = values[:, :-1][both], values[:, 1:][both]
    falls, rises = after < before, after > before
    to_floor = bool((after[falls] <= floor + _FLOOR * span).all())
    return bool(falls.any()) and to_floor and rises.sum() >= _RISES_PER_FALL * falls.sum()


def _turns(values: Doubles, observed: Bools, least: int) -> bool:
    """Whether a sensor of 0 to 360 or -180 to 180 runs through the ends at least `least` times, as a direction does.

    A direction takes the shorter way, and has many different readings on both sides. A power that is switched between
    0 and about 300 has much the same reading on the low side of all its jumps.
    """
    before, after = _pairs(values, observed)
    jumps = np.abs(after - before) > 180.0
    if jumps.mean() <= 0.001 or jumps.sum() < least:
        return False
    before, after = before[jumps], after[jumps]
    low, high = (np.quantile(each(before, after), (0.1, 0.9)) for each in (np.minimum, np.maximum))
    shorter = np.median(np.abs(around(after - before))) < 90.0
    return bool(shorter and low[1] - low[0] >= _LEAST_SPREAD * (high[1] - high[0]))


def _goes_round(distinct: Doubles, changes: Doubles, seen: Doubles) -> bool:
    """Whether a sensor goes around the circle from -180 to 180, and does not jump between opposite numbers.

    A battery's power and a torque jump like that when they are reversed. The readings of a direction leave no gap
    between both ends that is wider than its sectors. Its steps through the ends are no longer than others by the
    shorter way. They are many, like those of wind around 180, or its readings are in every quarter.
    """
    least, most = distinct[0], distinct[-1]
    sector = np.diff(distinct).min()
    jumps = np.abs(changes) > TURN / 2
    if least < -TURN / 2 or most > TURN / 2 or least + TURN - most > max(2 * ALMOST, 1.5 * sector) or jumps.all():
        return False
    quarter = np.round(seen / (TURN / 4))  # -2 and 2 are the same one
    everywhere = min(np.mean(quarter == each) for each in (-1, 0, 1)) >= _LEAST_IN_A_QUARTER
    if not jumps.any() or not (everywhere or jumps.mean() > _MANY_TURNS):
        return False
    return bool(np.median(np.abs(around(changes[jumps]))) <= np.quantile(np.abs(changes[~jumps]), 0.95))


def carries(kinds: tuple[Kind, ...], values: Doubles, observed: Bools) -> Bools:
    """Return the sensors of windows that are filled with `simple_value`, bool [n, C]."""
    return are(kinds, Kind.CARRIED) | unmixable(kinds, values, observed)


def unmixable(kinds: tuple[Kind, ...], values: Doubles, observed: Bools) -> Bools:
    """Return the sensors of windows between whose values a mean means nothing, bool [n, C]."""
    return are(kinds, Kind.STATE, Kind.ANGLE) | _broken(kinds, values, observed)


def continuous(kinds: tuple[Kind, ...], values: Doubles, observed: Bools) -> Bools:
    """Return the observed cells [n, C, T] without those of meters and angles whose line breaks within the window.

    Neither moments nor other sensors' answers may use a reset of 99,999 as a fall.
    """
    broken = _broken(kinds, values, observed)
    return observed & ~broken[:, :, None] if broken.any() else observed


def _broken(kinds: tuple[Kind, ...], values: Doubles, observed: Bools) -> Bools:
    """Meters with a reset in a window, and angles that run through 360 in it, bool [n, C]."""
    out = np.zeros(observed.shape[:2], np.bool_)
    for sensor, kind in enumerate(kinds):
        if kind in (Kind.METER, Kind.ANGLE):
            seen = observed[:, sensor]
            known = np.where(seen, values[:, sensor], np.nan)
            change = np.diff(carried_value(known, seen), axis=1)
            out[:, sensor] = ((np.abs(change) > 180.0) if kind is Kind.ANGLE else (change < 0)).any(axis=1)
    return out


def simple_value(kinds: Sequence[Kind | None], values: Doubles, observed: Bools) -> Doubles:
    """Return values [..., C, T] that follow from the readings before and after each cell by the sensor's kind.

    A state gets the last reading (or the first one after it), an angle a point on the shorter arc, and others a point
    on the line; a meter gets the last reading if the next one is smaller. NaN without a reading.
    """
    state, angle, meter = (are(kinds, kind) for kind in (Kind.STATE, Kind.ANGLE, Kind.METER))
    out = interpolation(values, observed, angle if angle.any() else None)
    if (state | meter).any():
        before, after = _neighbours(values, observed)
        last = np.where(np.isnan(before), after, before)
        kept = state[:, None] | (meter[:, None] & (after < before))
        out = np.where(kept, last, out)
    return out


def differences(kinds: Sequence[Kind | None], filled: Doubles, truth: Doubles) -> Doubles:
    """Return filled less true values [..., C, T], those of angles by the shorter way."""
    return angles.differences(filled, truth, are(kinds, Kind.ANGLE)[:, None])


def resets(values: Doubles, observed: Bools) -> Bools:
    """Return the cells [..., T] between a reading and a smaller next one: a meter was reset there."""
    before, after = _neighbours(values, observed)
    return after < before  # at a reading, both are its value


def carried_value(values: Doubles, observed: Bools) -> Doubles:
    """Return the last value before each cell, or the first one after it; NaN without an observation. [..., T]."""
    before, after = _neighbours(values, observed)
    return np.where(np.isnan(before), after, before)


def _neighbours(values: Doubles, observed: Bools) -> tuple[Doubles, Doubles]:
    """The readings before and after each cell [..., T]; a reading is its own neighbour; NaN where there is none."""
    return last_value(values, observed), last_value(values[..., ::-1], observed[..., ::-1])[..., ::-1]


def _changes(values: Doubles, observed: Bools) -> Doubles:
    """Differences of successive readings of each group."""
    before, after = _pairs(values, observed)
    return after - before


def _pairs(values: Doubles, observed: Bools) -> tuple[Doubles, Doubles]:
    """Successive readings of each group, earlier and later ones."""
    rows = [row[seen] for row, seen in zip(values, observed, strict=True) if seen.sum() > 1] or [np.zeros(2)]
    return np.concatenate([row[:-1] for row in rows]), np.concatenate([row[1:] for row in rows])


def by_kind(
    lower: Doubles,
    upper: Doubles,
    value: Doubles,
    kinds: Sequence[Kind | None],
    sensor: NDArray[np.int64] | NDArray[np.int32],
    lowest: Doubles,
    highest: Doubles,
) -> tuple[Doubles, Doubles]:
    """Return the intervals [...] of filled values, widened as the kinds of their sensors require.

    A valve is open or closed, so the interval of a state that reaches more than half of the way to the highest or
    lowest state ends there. 350 to 10 lies around north, but no two numbers in order say so, and an interval that ends
    at 0 or 360 would not hold the other side: one that reaches an end of the circle holds every direction.

    Args:
        lower: [...], lower bounds; NaN without an interval.
        upper: [...], upper bounds.
        value: [...], filled values between the bounds.
        kinds: kinds of the C sensors.
        sensor: [...], index of each value's sensor; broadcast to the other arrays.
        lowest: [...], lowest possible values; infinite if unknown.
        highest: [...], highest possible values; infinite if unknown.
    """
    state, direction = (are(kinds, kind)[sensor] for kind in (Kind.STATE, Kind.ANGLE))
    with np.errstate(invalid="ignore"):
        down = state & np.isfinite(lowest) & (lower < (value + lowest) / 2)
        up = state & np.isfinite(highest) & (upper > (value + highest) / 2)
    start = start_of((value < 0.0) | (np.isfinite(lowest) & (lowest < 0.0) & (value <= TURN / 2)))
    least, most = np.maximum(lowest, start), np.minimum(highest, start + TURN)
    end = direction & ((lower <= least) | (upper >= most))
    lower = np.where(down, lowest, np.where(end, least, lower))
    upper = np.where(up, highest, np.where(end, most, upper))
    # A direction with readings outside the circle may be filled by a value outside it.
    return np.minimum(lower, value), np.maximum(upper, value)
