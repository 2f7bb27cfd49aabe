"""Detects numbers that mean a missing value by their shape: one number, repeated, far outside all others.

A number between the smallest and the largest of the other values is never a sentinel.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.masks import runs
from glaim_stream.files.form import Sentinel

# Numbers that instruments and archives write for missing values: -99, -999.25, -9999, 9999.9, 1e+20, integer limits.
_NINES = re.compile(r"-9{2,}(\.(9+|0|25))?|9{4,}(\.9+)?|999\.9+|99\.99|-?9\.99\d*e\+?\d+|-?1e\+(20|30|36)")
_HIGH_NINES = re.compile(r"9{2,3}(\.9+)?")  # 99 and 999, where they are far above all others
_LIMITS = {-32768.0, 32767.0, 65535.0, -2147483648.0, 2147483647.0, -6999.0, -7777.0, -8888.0, -7999.0, 7999.0}
_MOST = 3  # most sentinels at one end of a column
_LEVELS = 8  # levels of other values that are needed to judge distances
_FEW_LEVELS = 3  # the same for 99 and 999, which then must be further away
_CODES = 9  # whole numbers from 0 to this are codes, such as of valves and alarms, where there are few of them
_MOST_ZEROS = 0.4  # largest share of zeros in which a block of them is remarkable
_VERY_FAR = 3.0  # distance in spreads of the other values
_ALONE = 10.0  # the same for a number that stands once
_NEIGHBOURS = 20  # levels that the usual distance near an end is taken from
_KEPT = _MOST + _NEIGHBOURS + 1  # levels at an end that `_outside` looks at


def sentinels(
    columns: Mapping[str, NDArray[np.float64]],
    told: Sequence[float] = (),
    told_of: Mapping[str, Sequence[float]] | None = None,
    *,
    only_told: Collection[str] = (),
) -> tuple[Sentinel, ...]:
    """The numbers of the columns that mean a missing value, or may.

    Args:
        columns: values by column, float64; NaN where missing.
        told: numbers that the user stated; they are read as missing everywhere.
        told_of: numbers that the user stated, by column.
        only_told: columns of which no other number is considered.
    """
    found: list[Sentinel] = []
    open_ends: list[tuple[str, Sentinel]] = []
    amid: list[Sentinel] = []
    alone: list[Sentinel] = []  # too rare in their column to be remarkable alone
    for column, values in columns.items():
        levels, counts = np.unique(values[np.isfinite(values)], return_counts=True)
        of_column = (told_of or {}).get(column, ())
        for number in (*of_column, *told):
            at = np.flatnonzero(levels == number)
            if not len(at):
                continue
            if number not in of_column and _is_amid(levels, counts, int(at[0])):
                amid.append(replace(_sentinel(column, levels, counts, int(at[0]), taken=False), amid=True))
            else:
                found.append(_sentinel(column, levels, counts, int(at[0]), taken=True))
                levels, counts = np.delete(levels, at), np.delete(counts, at)
        if column in only_told:
            continue
        if len(levels) == 1 and counts[0] > 1 and abs(levels[0]) >= 999 and _is_shaped(float(levels[0])):
            found.append(_sentinel(column, levels, counts, 0, taken=True))
            continue
        places = _outside(levels, counts)
        for place in places:
            # Without the far numbers at the other end, which would widen the spread of the readings.
            inner = np.ones(len(levels), np.bool_)
            inner[[at for at in places if (at < len(levels) / 2) != (place < len(levels) / 2)]] = False
            if inner.sum() < 2:
                inner[:] = True
            sure, maybe = _judged(levels[inner], counts[inner], int(inner[:place].sum()))
            if sure:
                found.append(_sentinel(column, levels, counts, place, taken=True))
            elif maybe:
                open_ends.append((column, _sentinel(column, levels, counts, place, taken=False)))
            else:
                alone.append(_sentinel(column, levels, counts, place, taken=True))
        block = _zero_block(values, levels)
        if block is not None:
            open_ends.append((column, replace(block, column=column)))
    known = {each.value for each in found if each.taken}
    found += [each for each in alone if each.value in known and abs(each.value) > 1]
    for column, each in open_ends:
        # A number that is sure in one column is sure in any other where it also lies alone and outside.
        sure = each.value in known and each.value != 0 and abs(each.value) > 1
        common = not sure and 2 * each.count > np.isfinite(columns[column]).sum()  # a humidity that rests at 99
        found.append(replace(each, column=column, taken=sure, amid=common))
    found += amid
    order = {column: place for place, column in enumerate(columns)}
    return tuple(sorted(found, key=lambda each: (order[each.column], each.value)))


class Ends:
    """The lowest and highest levels of a column that comes in pieces."""

    def __init__(self) -> None:
        self._low = self._high = np.empty(0)

    def add(self, values: NDArray[np.float64] | NDArray[np.float32]) -> None:
        """Take finite values."""
        levels = np.unique(values)
        self._low = np.unique(np.append(self._low, levels[:_KEPT]))[:_KEPT]
        self._high = np.unique(np.append(self._high, levels[-_KEPT:]))[-_KEPT:]

    @property
    def need_judging(self) -> bool:
        """Whether `sentinels` may find a number, which the whole column tells."""
        levels = np.union1d(self._low, self._high)
        if len(levels) < 2:
            return len(levels) > 0 and abs(float(levels[0])) >= 999
        gap, spread, near = _gap(levels, 0)
        zeros = levels[0] == 0 and gap > 0.3 * spread and gap > 3 * near
        return bool(zeros or _outside(levels, np.ones(len(levels), np.int64)))


def note(sentinel: Sentinel) -> str:
    """A sentence on a sentinel, with its count and its two neighbours."""
    count = "once" if sentinel.count == 1 else f"{sentinel.count} times"
    sides = [
        text for text, value in (("below", sentinel.below), ("above", sentinel.above)) if np.isfinite(value)
        for text in [f"the next value {text} is {value:g}"]
    ]  # fmt: skip
    column = sentinel.column
    where = f"{sentinel.value:g} stands {count} in {sentinel.column!r}; {', '.join(sides) or 'there is no other value'}"
    if sentinel.taken:
        return f"{where}: taken as no value"
    if sentinel.amid:
        return f"{where}: kept as a reading among others; if it is none, state --missing '{column}={sentinel.value:g}'"
    return (
        f"{where}: kept as it is, and not used; if it stands for no value, state "
        f"--missing '{column}={sentinel.value:g}'; if it is a reading, --missing '{column}='"
    )


def _sentinel(column: str, levels: NDArray[np.float64], counts: NDArray[np.int64], at: int, *, taken: bool) -> Sentinel:
    below = float(levels[at - 1]) if at else np.nan
    above = float(levels[at + 1]) if at + 1 < len(levels) else np.nan
    return Sentinel(column, float(levels[at]), int(counts[at]), below, above, taken)


def _outside(levels: NDArray[np.float64], counts: NDArray[np.int64]) -> list[int]:
    """Indices of levels at both ends that are apart from the others, outermost first."""
    places: list[int] = []
    for ends in (range(min(_MOST, len(levels) - 1)), range(len(levels) - 1, max(len(levels) - 1 - _MOST, 0), -1)):
        inner: list[int] = []
        for at in ends:
            inner.append(at)
            low, high = _rest(levels, at)
            if high < low or len(levels) < 2:
                continue
            if _is_far(levels, at):
                places += [each for each in inner if each not in places]
                inner = []
    return places


def _rest(levels: NDArray[np.float64], at: int) -> tuple[int, int]:
    """The first and last index of the levels on the inner side of a level near an end, both inclusive."""
    return (at + 1, len(levels) - 1) if at < len(levels) / 2 else (0, at - 1)


def _gap(levels: NDArray[np.float64], at: int) -> tuple[float, float, float]:
    """Distance to the next level inwards, spread of all levels inwards, and usual distance near that end."""
    low, high = _rest(levels, at)
    if high < low:
        return 0.0, 0.0, 0.0
    inner = levels[low : high + 1]
    from_low = at < low
    gap = float(inner[0] - levels[at] if from_low else levels[at] - inner[-1])
    near = np.diff(inner[: _NEIGHBOURS + 1] if from_low else inner[-_NEIGHBOURS - 1 :])
    return gap, float(inner[-1] - inner[0]), float(near.max()) if len(near) else 0.0


def _is_far(levels: NDArray[np.float64], at: int) -> bool:
    gap, spread, near = _gap(levels, at)
    return gap > spread or (gap > 5 * near and gap > 0.1 * spread) or (at == 0 and levels[0] < 0 <= levels[1])


def _is_shaped(value: float) -> bool:
    return bool(_NINES.fullmatch(f"{value:g}")) or value in _LIMITS


def _is_amid(levels: NDArray[np.float64], counts: NDArray[np.int64], at: int) -> bool:
    """Whether a level lies between others and is about as frequent as they are, like any reading."""
    usual = float(np.median(np.delete(counts, at))) if len(counts) > 1 else 0.0
    return 0 < at < len(levels) - 1 and counts[at] <= 3 * max(usual, 1.0)


def _judged(levels: NDArray[np.float64], counts: NDArray[np.int64], at: int) -> tuple[bool, bool]:
    """Whether a level certainly means a missing value, and whether it may."""
    value, count = float(levels[at]), int(counts[at])
    low, high = _rest(levels, at)
    inner, inner_counts = levels[low : high + 1], counts[low : high + 1]
    gap, spread, _ = _gap(levels, at)
    shaped = _is_shaped(value)
    far = gap > spread and gap > abs(value) / 3
    # In a column of few levels each one is repeated; a level very far outside is remarkable even so.
    repeated = count >= 2 and (count >= 2 * float(np.median(inner_counts)) or gap > _VERY_FAR * spread)
    if far and _HIGH_NINES.fullmatch(f"{value:g}"):
        few = len(inner) < _LEVELS
        codes = few and inner.min() >= 0 and inner.max() <= _CODES and bool((inner == np.rint(inner)).all())
        clear = not few or (gap > _ALONE * spread and not codes)
        # Once or twice they may be missing values, but not of rain, whose readings are mostly 0 and seldom high.
        usual = int(np.argmax(inner_counts))
        rain = inner[usual] == 0 and 2 * inner_counts[usual] >= inner_counts.sum()
        rare = gap > (_VERY_FAR if count > 1 else _ALONE) * spread and not rain and len(inner) >= _FEW_LEVELS
        return count >= 3 and clear, count >= 3 or (rare and clear)
    if shaped and far and (count >= 2 or (abs(value) >= 999 and gap > _ALONE * spread)):
        return True, True
    if shaped and repeated and count >= 3 and abs(value) >= 99 and not inner.min() <= value <= inner.max():
        return True, True
    # A repeated round negative number, where the other values are not negative, or by far less so.
    negative = value <= -10 and value == round(value) and value % 10 == 0 and inner.min() > value / 4
    if negative and repeated and count >= 3:
        return True, True
    if value == 0:
        return False, False  # zero is the most common number of all; blocks of it are judged separately
    impossible = gap > spread / 2 or value == -1
    return False, (repeated and count >= 3 and impossible and len(inner) >= _LEVELS) or (shaped and far)


def _zero_block(values: NDArray[np.float64], levels: NDArray[np.float64]) -> Sentinel | None:
    """A block of zeros of a sensor that is never near 0 otherwise: it may have been off."""
    if len(levels) <= _LEVELS or levels[0] != 0:
        return None
    gap, spread, near = _gap(levels, 0)
    zero = values == 0
    if not (gap > 0.3 * spread and gap > 3 * near):
        return None
    if zero.sum() > _MOST_ZEROS * np.isfinite(values).sum():
        return None  # nights, and days without rain
    if np.diff(runs(zero)).max(initial=0) < 3:
        return None
    return Sentinel("", 0.0, int(zero.sum()), np.nan, float(levels[1]), False)
