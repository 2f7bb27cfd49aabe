"""Times as a person gives them on the command line: a moment, or how long ago."""

from __future__ import annotations

import re
import time

_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
MOMENT = "ISO 8601, or an age such as 30d, 12h, 45m"


def moment_or_ago_ms(text: str, now_ms: int, *, timezone: str = "UTC") -> int:
    """Epoch milliseconds of an ISO 8601 moment, or of an age such as 30d before now.

    Args:
        text: the moment or the age.
        now_ms: wall clock.
        timezone: zone of a moment that names none.

    Raises:
        SettingsError: the text is neither.
    """
    from glaim_stream.core.errors import SettingsError
    from glaim_stream.core.times import moment_ms, zone_of

    age = _AGE.fullmatch(text.strip())
    if age is not None:
        return now_ms - round(float(age[1]) * _SECONDS[age[2]] * 1000)
    zone_of(timezone)  # an unknown zone gets its own message
    try:
        return moment_ms(text, timezone=timezone)
    except (SettingsError, OverflowError) as error:
        raise SettingsError(
            f"expected a time such as 2017-02-01T05:00:00Z, or how long ago, such as 30d, 12h or 45m, found {text!r}"
        ) from error


def bounds_ms(since: str | None, until: str | None, *, timezone: str = "UTC") -> tuple[int | None, int | None]:
    """Two bounds of a range as epoch milliseconds; None sets no bound.

    Raises:
        SettingsError: a text is no time, or the first bound is not before the second.
    """
    from glaim_stream.core.errors import SettingsError

    now_ms = time.time_ns() // 1_000_000
    since_ms, until_ms = (
        None if text is None else moment_or_ago_ms(text, now_ms, timezone=timezone) for text in (since, until)
    )
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise SettingsError(f"expected --since before --until, found {since} and {until}")
    return since_ms, until_ms
