"""Retries until a prerequisite of the worker is met, and reports what is missing in the meantime."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from glaim_stream.core.retry import pauses_s
from glaim_stream.worker.health import Health

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0
_REPEAT_S = 60.0  # pause between two log lines with the same reason


def wait_until(
    missing: Callable[[], str | None],
    health: Health,
    *,
    sleep: Callable[[float], object] = time.sleep,
    now_s: Callable[[], float] = time.monotonic,
) -> None:
    """Call a function again and again until nothing is missing.

    Args:
        missing: returns what is missing, a sentence without its full stop; None if nothing is. Its errors are raised.
        health: shows the sentence meanwhile.
        sleep: waits for so many seconds.
        now_s: a monotonic clock, seconds.
    """
    pauses = pauses_s(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    said, said_s = "", 0.0
    while (why := missing()) is not None:
        health.waits_for(why)
        if why != said or now_s() - said_s >= _REPEAT_S:
            log.warning("%s. The worker waits and tries again", why)
            said, said_s = why, now_s()
        sleep(next(pauses))
