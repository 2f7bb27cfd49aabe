"""Converts local times to UTC: by the file's zone or a column of zones, also in the doubled hour of summer time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.errors import listed
from glaim_stream.core.times import NO_TIME, text_of_ms
from glaim_stream.files.form import duration
from glaim_stream.files.kinds import is_text
from glaim_stream.files.stamps import Ints, Stamps, offsets_of

_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
_FARTHEST_MIN = 14 * 60  # of Kiribati
_ZONE_IN_NAME = re.compile(r"\b(?:GMT|UTC) ?([+-])(\d{1,2})(?::?(\d{2})|[.,](\d{1,2}))?(?!\d)")
_ZONE_WORD = re.compile(r"[A-Z]{2,5}|[A-Z][a-z]+(/[A-Z][A-Za-z_]+)+")
_ZONE_NAMED = re.compile(r"zone|^tz|_tz|utc|offset|\bdst\b", re.IGNORECASE)


def zone_in(label: str) -> str:
    """The zone in the name of a column of times, such as `Date Time, GMT-06:00` or `Time (UTC+5.5)`; "" for none."""
    found = _ZONE_IN_NAME.search(label)
    if found is None:
        return ""
    minutes = 60 * int(found[2]) + (int(found[3] or 0) if found[4] is None else round(60 * float(f".{found[4]}")))
    if not 0 < minutes <= _FARTHEST_MIN or minutes % 15:
        return ""
    if minutes % 60 == 0 and minutes <= 720:
        return f"Etc/GMT{'-' if found[1] == '+' else '+'}{minutes // 60}"  # these names count to the west
    return f"{found[1]}{minutes // 60:02}:{minutes % 60:02}"


def zone_column(table: Mapping[str, Any], stamp: Stamps) -> tuple[str, Stamps, list[str]]:
    """The column that states the zone of each row (CET, CEST, +01:00) and the stamps in UTC; "" without one.

    Notes name the column, and one whose words are no zones that are known.

    Args:
        table: columns other than those of the time.
        stamp: stamps of the rows.
    """
    notes: list[str] = []
    for column, cells in table.items() if not stamp.zoned and stamp.has_clock else ():
        if not _ZONE_NAMED.search(column) or not is_text(cells.type):
            continue
        offsets = offsets_of(cells, american=column.lower() == "tz_cd")  # of the USGS
        if offsets is not None:
            ms = np.where(stamp.ms == NO_TIME, NO_TIME, stamp.ms - offsets)
            return column, replace(stamp, zoned=True, ms=ms), [f"the zones of the times are in {column!r}"]
        words = [each for each in pc.unique(cells).to_pylist() if each]
        if words and all(_ZONE_WORD.fullmatch(each) for each in words):
            notes.append(
                f"{column!r} states zones by words that are not known, or mean several ({listed(words)}): --timezone "
                "states the zone of the times"
            )
    return "", stamp, notes


def utc(stamp: Stamps, timezone: str, groups: NDArray[np.int64], name: str) -> tuple[Ints, list[str]]:
    """Epoch milliseconds of local stamps; row order distinguishes the two passes of the doubled hour."""
    if stamp.zoned or timezone == "UTC":
        return stamp.ms, [] if stamp.zoned else _set_back(stamp.ms, groups) or _doubled(stamp.ms, groups)
    known = stamp.ms != NO_TIME
    local = pa.array(np.where(known, stamp.ms, 0)).cast(pa.timestamp("ms"))

    def placed(ambiguous: str) -> Ints:
        zoned = pc.assume_timezone(local, timezone, ambiguous=ambiguous, nonexistent="earliest")
        return np.asarray(zoned.cast(pa.int64()), np.int64)

    early, late = placed("earliest"), placed("latest")
    ms, notes = np.where(known, early, NO_TIME), []
    double = known & (early != late)
    if double.any():
        told, untold = _second_passes(stamp.ms, double, groups)
        ms = np.where(told, late, ms)
        shown = text_of_ms(int(stamp.ms[np.flatnonzero(double)[0]])).removesuffix("Z")
        if told.any():
            notes.append(
                f"the hour that summer time doubles, {shown} in {timezone}: {int(told.sum())} rows are of its second "
                "pass, as their order tells"
            )
        if untold:
            notes.append(
                f"the hour that summer time doubles, {shown} in {timezone}: {untold} rows are read as of its first "
                "pass; their order does not tell"
            )
    else:
        notes += _set_back(stamp.ms, groups)
    back = pa.array(ms[known]).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("ms", timezone))
    shown_ms = np.asarray(pc.local_timestamp(back).cast(pa.int64()), np.int64)
    absent = int((shown_ms != stamp.ms[known]).sum())
    if absent:
        notes.append(
            f"{absent} stamps do not exist in {timezone}, where summer time skips an hour: the file's clock may keep "
            "winter time all year"
        )
    return ms, notes


def _second_passes(local: Ints, double: NDArray[np.bool_], groups: Ints) -> tuple[NDArray[np.bool_], int]:
    """Rows in the second pass of a doubled hour, and the number of rows whose pass remains unknown."""
    told, untold = np.zeros(len(local), np.bool_), 0
    for group in np.unique(groups[double]):
        rows = np.flatnonzero((groups == group) & double)
        days = local[rows] // _DAY_MS
        for day in np.unique(days):
            of_day = rows[days == day]
            back = np.flatnonzero(np.diff(local[of_day]) < 0)
            if len(back) == 1:
                told[of_day[back[0] + 1 :]] = True
            else:
                untold += len(of_day)
    return told, untold


def _set_back(ms: Ints, groups: Ints) -> list[str]:
    """A note if a clock jumps ahead and is set back by as much within a day: its rows in between have wrong times."""
    for group in np.unique(groups):
        known = ms[(groups == group) & (ms != NO_TIME)]
        steps = np.diff(known)
        backs = np.flatnonzero(steps < 0)
        if not len(backs) or len(backs) > max(2, len(known) // 100):  # newest first, or out of order throughout
            continue
        usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.0
        for at in backs.tolist():
            by = usual - steps[at]
            ahead = np.flatnonzero(np.abs(steps[:at] - usual - by) < usual)
            if not usual or by < _HOUR_MS / 2 or not len(ahead) or known[at] - known[ahead[-1] + 1] > _DAY_MS:
                continue
            first, last, lowest = (
                text_of_ms(int(each)).removesuffix("Z") for each in (known[ahead[-1] + 1], known[at], known[at + 1])
            )
            return [
                f"the clock jumps ahead to {first} and from {last} back to {lowest}, by {duration(int(by))} each time: "
                f"the {at - ahead[-1]} rows in between seem to be too late by that much, and share times with others; "
                "they are taken as they stand, so correct their times first"
            ]
    return []


def _doubled(ms: Ints, groups: Ints) -> list[str]:
    """A note if stamps without a zone go back by one hour in an autumn night, like summer time."""
    for group in np.unique(groups):
        known = ms[(groups == group) & (ms != NO_TIME)]
        if 2 * int((np.diff(known) < 0).sum()) > len(known):  # newest first
            continue
        for at in np.flatnonzero(np.diff(known) < 0).tolist():
            day = known[at].astype("datetime64[ms]").astype("datetime64[D]")
            sunday = (int(day.astype(np.int64)) + 4) % 7 == 0
            month = int(str(day)[5:7])
            if sunday and month in (3, 4, 10, 11) and -2 * _HOUR_MS < known[at + 1] - known[at] <= 0:
                return [
                    f"stamps go back by an hour at {text_of_ms(int(known[at])).removesuffix('Z')}, as where summer "
                    "time ends: state the zone (--timezone) to keep the two hours apart"
                ]
    return []
