"""Times as text and as epoch milliseconds, and the range of accepted times."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from glaim_stream.core.errors import SettingsError

# Years 1900 to 2200. A number outside this range is probably in another unit (seconds, microseconds).
EARLIEST_MS, LATEST_MS = -2_208_988_800_000, 7_258_118_400_000
NO_TIME = int(np.iinfo(np.int64).min)  # time of a row without one, as numpy's NaT: -1 would be a millisecond of 1969

_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while the machine is suspended; Linux has it

_OFFSET = re.compile(r"([+-])(\d{2}):(\d{2})")


def steady_s() -> float:
    """Seconds of a clock without jumps, which goes on while the machine is suspended."""
    return time.clock_gettime_ns(_BOOT) / 1e9


_START_NS = time.time_ns() - time.clock_gettime_ns(_BOOT)


def steady_ms() -> int:
    """Wall time in epoch milliseconds without its jumps: it runs on from the time at which the process started.

    A correction of the system's clock does not move it. It goes on while the machine is suspended: otherwise every
    reading after an hour's sleep would seem to come from the future.
    """
    return (_START_NS + time.clock_gettime_ns(_BOOT)) // 1_000_000


def moment_ms(text: str, *, timezone: str = "UTC") -> int:
    """Epoch milliseconds of an ISO 8601 time; a time without a zone is in `timezone`.

    Raises:
        SettingsError: the text is not an ISO 8601 time, or the zone is unknown.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise SettingsError(f"expected a time such as 2017-02-01T05:00:00Z, found {text!r}") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone_of(timezone))
    return round(moment.timestamp() * 1000)


def text_of_ms(time_ms: int) -> str:
    """Format a time for people: `2017-02-01T05:00:00Z`, with milliseconds only if they are not zero."""
    text = str(np.datetime64(time_ms, "ms"))
    return text.removesuffix(".000") + "Z"


def zone_of(name: str) -> tzinfo:
    """The time zone of that name, or of an offset such as +05:30; `str` gives the name back.

    Raises:
        SettingsError: the zone is unknown.
    """
    if (offset := _OFFSET.fullmatch(name)) is not None:
        away = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(-away if offset[1] == "-" else away, name)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise SettingsError(f"expected a time zone such as Europe/Berlin, found {name!r}") from error
