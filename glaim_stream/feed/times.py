"""Times as people and files write them, into epoch milliseconds. A zone is never guessed, only given."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.errors import SettingsError

_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y-%m-%d", "%Y/%m/%d")
# Years 1900 to 2200 in milliseconds: outside of them a number is seconds or microseconds, not milliseconds.
_EARLIEST_MS, _LATEST_MS = -2_208_988_800_000, 7_258_118_400_000


def moment_ms(text: str, *, timezone: str = "UTC") -> int:
    """Epoch milliseconds of an ISO 8601 moment; one without a zone is taken in `timezone`.

    Raises:
        SettingsError: it is no such moment, or the zone is unknown.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise SettingsError(f"expected a time such as 2017-02-01T05:00:00Z, found {text!r}") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=_zone(timezone))
    return round(moment.timestamp() * 1000)


def text_of_ms(time_ms: int) -> str:
    """A moment for people: `2017-02-01T05:00:00Z`, with milliseconds only where there are any."""
    text = str(np.datetime64(time_ms, "ms"))
    return text.removesuffix(".000") + "Z"


def column_ms(column: Any, *, timezone: str, what: str) -> NDArray[np.int64]:
    """Epoch milliseconds, int64 [n], of an Arrow column of timestamps, dates, epoch milliseconds or text.

    Args:
        column: an Arrow array.
        timezone: zone of stamps that carry none.
        what: names the column in an error.

    Raises:
        SettingsError: a row has no time, or one that cannot be read.
    """
    _zone(timezone)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = _parsed(column, what)
    if pa.types.is_date(column.type):
        column = pc.cast(column, pa.timestamp("ms"))
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise SettingsError(f"{what}: expected a time in every row, found none in row {row}")
    if pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            # An hour that occurs twice or never (summer time) is read as the earlier possible one.
            column = pc.assume_timezone(column, timezone, ambiguous="earliest", nonexistent="earliest")
        column = pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False)
    elif not pa.types.is_integer(column.type):
        raise SettingsError(f"{what}: expected timestamps, ISO 8601 or epoch milliseconds, found {column.type}")
    times = pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False)
    if len(times) and not _EARLIEST_MS <= int(times.min()) <= int(times.max()) <= _LATEST_MS:
        raise SettingsError(f"{what}: expected epoch milliseconds of 1900 to 2200, found {int(times[0])}")
    return times  # type: ignore[no-any-return]


def _parsed(column: Any, what: str) -> Any:
    for pattern in _FORMATS:
        parsed = pc.strptime(column, format=pattern, unit="ms", error_is_null=True)
        if parsed.null_count == column.null_count:
            return parsed
    try:
        return pc.cast(column, pa.timestamp("ms", "UTC"))
    except pa.ArrowInvalid:
        pass
    try:
        return pc.cast(column, pa.timestamp("ms"))
    except pa.ArrowInvalid as error:
        raise SettingsError(f"{what}: expected times such as 2017-02-01T05:00:00Z: {error}") from error


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise SettingsError(f"expected a time zone such as Europe/Berlin, found {name!r}") from error
