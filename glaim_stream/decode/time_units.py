"""Recognises event times that are numbers in another unit than epoch milliseconds. Vectorised, and pure.

A number states no unit. Read as milliseconds, the seconds of today lie in January 1970 and the digits 202503010000 in
June 1976: both are valid times of readings that no window would ever close. The time of their record
gives them away: it lies decades later as milliseconds, and close by in the other unit.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.times import LATEST_MS

PLAUSIBLE_MS = 30 * 365 * 24 * 3_600_000
"""Distance from its record within which a time is plausible: longer than any archive that is streamed as numbers."""

_DAY_MS = 24 * 3_600_000


class TimeUnit(IntEnum):
    """The unit that was found for a number without one."""

    MILLISECONDS = 0
    SECONDS = 1
    MICROSECONDS = 2
    NANOSECONDS = 3
    DATE_DIGITS = 4

    @property
    def text(self) -> str:
        """The unit in words."""
        return "a date in digits" if self is TimeUnit.DATE_DIGITS else f"epoch {self.name.lower()}"


def found_units(number: NDArray[np.float64], produced_ms: NDArray[np.int64]) -> NDArray[np.int8] | None:
    """Return the TimeUnit of each number; None if all of them are plausible milliseconds.

    A number that is plausible in no unit counts as milliseconds: it may be a reading from long ago.

    Args:
        number: float64 [n], event times as they were stated; NaN where there is none.
        produced_ms: int64 [n], times of their records, epoch milliseconds.
    """
    odd = (number < produced_ms - PLAUSIBLE_MS) | (number > LATEST_MS)
    if not odd.any():
        return None
    unit = np.zeros(len(number), np.int8)
    rows = np.flatnonzero(odd)
    number, produced_ms = number[rows], produced_ms[rows]
    with np.errstate(over="ignore"):  # the largest floats are times in no unit
        as_seconds = number * 1e3
    for found, time_ms in (
        (TimeUnit.SECONDS, as_seconds),
        (TimeUnit.MICROSECONDS, number / 1e3),
        (TimeUnit.NANOSECONDS, number / 1e6),
        (TimeUnit.DATE_DIGITS, _of_digits(number)),
    ):
        unit[rows[np.abs(time_ms - produced_ms) <= PLAUSIBLE_MS]] = found
    return unit


def _of_digits(number: NDArray[np.float64]) -> NDArray[np.float64]:
    """Epoch milliseconds, to the day, of YYYYMMDD, YYYYMMDDhhmm and YYYYMMDDhhmmss; NaN for anything else."""
    out = np.full(len(number), np.nan)
    for digits in (8, 12, 14):
        rows = np.flatnonzero((number >= 10 ** (digits - 1)) & (number < 10**digits) & (number == np.floor(number)))
        date, clock = np.divmod(number[rows].astype(np.int64), 10 ** (digits - 8))
        year, month, day = date // 10_000, date // 100 % 100, date % 100
        hour, minute, second = (0, 0, 0)
        if digits > 8:
            clock = clock * 100 ** (14 - digits >> 1)  # hhmm as hhmmss
            hour, minute, second = clock // 10_000, clock // 100 % 100, clock % 100
        valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
        valid &= (hour < 24) & (minute < 60) & (second < 60)
        start = ((year[valid] - 1970) * 12 + month[valid] - 1).astype("datetime64[M]").astype("datetime64[D]")
        out[rows[valid]] = (start.astype(np.int64) + day[valid] - 1) * _DAY_MS
    return out
