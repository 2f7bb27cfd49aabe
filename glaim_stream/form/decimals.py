"""The decimals of sensors: how finely their readings are written, to which filled values are then rounded.

They are learned from readings and kept in the file of a closed form, beside the form: readers that know no decimals see
the same form, and its digest does not include them.

Zeros do not count, and neither do readings that repeat the one before: a sensor that rests writes 0 or 5, and 0.3204
when it moves. From fewer than `_FEWEST` other readings nothing is learned.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import ModelError
from glaim_stream.form import artefact

Decimals = NDArray[np.int8]

_UNKNOWN = np.int8(-1)
_ARRAY = "decimals"
_MOST = 9
# Share of a group's readings that the decimals must suffice for, as in files that `fill` writes: the others are sums
# and means that a program has computed. With a larger share one such reading in twenty would decide.
_SHARE = 0.95
_FEWEST = 20
_SAMPLE = 1_000_000  # readings that are looked at, in all
# By precision, 64 and 32 bits, in units in the last place: the largest error of a product such as 3 * 0.1, and the
# least value of the last decimal. A computed number then fits by chance at most half the time, far below `_SHARE`.
_ERROR = np.array([4.0, 1.0])
_LEAST = np.array([16.0, 4.0])


def learned_decimals(cell: NDArray[np.int64], values: NDArray[np.float64], sensors: int) -> Decimals:
    """Return the decimals of each sensor's readings, those of the group that has the most of them.

    A sensor all of whose readings are 32-bit numbers is read as such: 0.10000000149 has one decimal.

    Args:
        cell: int64 [n] ascending, group * sensors + sensor of each reading, which are in the order of their times.
        values: float64 [n], finite.
        sensors: C.

    Returns:
        int8 [C], 0 to 9; -1 for a sensor with too few readings in each group, or with more decimals in one.
    """
    counted = values != 0
    counted[1:] &= (values[1:] != values[:-1]) | (cell[1:] != cell[:-1])
    values = values[counted]
    cells, first, count = np.unique(cell[counted], return_index=True, return_counts=True)
    every = -(-count // max(_FEWEST, _SAMPLE // max(1, len(cells))))
    taken = (np.arange(len(values)) - np.repeat(first, count)) % np.repeat(every, count) == 0
    values, place = values[taken], np.repeat(np.arange(len(cells)), count)[taken]
    with np.errstate(over="ignore", invalid="ignore"):  # beyond the largest 32-bit number, or the largest of all
        single = values.astype(np.float32).astype(np.float64)
        unit = np.abs(np.stack([np.spacing(values), np.spacing(values.astype(np.float32))]))
        all_single = np.bincount((cells % sensors)[place], values != single, minlength=sensors) == 0
        bits = all_single[(cells % sensors)[place]].astype(np.int64)
        needed = _needed(values, unit[bits, np.arange(len(values))], _ERROR[bits], _LEAST[bits])
    counts = np.bincount(place * (_MOST + 2) + needed, minlength=len(cells) * (_MOST + 2)).reshape(-1, _MOST + 2)
    enough = np.cumsum(counts, axis=1) >= _SHARE * counts.sum(axis=1, keepdims=True)
    known = counts.sum(axis=1) >= _FEWEST
    most = np.full(sensors, _UNKNOWN, np.int8)
    np.maximum.at(most, (cells % sensors)[known], enough.argmax(axis=1)[known].astype(np.int8))
    return np.where(most > _MOST, _UNKNOWN, most)


def _needed(
    values: NDArray[np.float64], unit: NDArray[np.float64], error: NDArray[np.float64], least: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The fewest decimals of each value [n], `_MOST` + 1 where it has more; `unit` is that in its last place."""
    needed = np.where(values == np.rint(values), 0, _MOST + 1)
    for decimals in range(_MOST, -1, -1):
        near = np.abs(np.round(values, decimals) - values) <= error * unit
        needed[near & (10.0**-decimals >= least * unit)] = decimals
    return needed


def with_decimals(form: bytes, decimals: Decimals) -> bytes:
    """Return the content of a closed form's file with these decimals of its sensors, int8 [C]."""
    return artefact.to_bytes(artefact.from_bytes(form, "the form") | {_ARRAY: decimals})


def decimals_in(arrays: artefact.Arrays, sensors: int) -> Decimals | None:
    """Return the decimals among the arrays of a form's file, int8 [C]; None if nothing was learned of them.

    Raises:
        ModelError: they are not those of so many sensors.
    """
    found = arrays.get(_ARRAY)
    if found is None:
        return None
    if found.dtype != np.int8 or found.shape != (sensors,) or ((found < _UNKNOWN) | (found > _MOST)).any():
        raise ModelError(
            f"expected decimals of {sensors} sensors, each {_UNKNOWN} to {_MOST}, found {found.dtype} {found.shape}"
        )
    return found
