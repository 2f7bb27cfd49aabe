"""Pauses between attempts: exponential backoff with jitter."""

from __future__ import annotations

import random
from collections.abc import Iterator

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0
JITTER = 0.25  # share of a pause; enough that workers which failed together do not all come back together


def pauses_s(first_s: float = FIRST_PAUSE_S, longest_s: float = LONGEST_PAUSE_S) -> Iterator[float]:
    """Yield the length of each pause in seconds, without end: doubled every time, up to `longest_s`, less the jitter.

    A caller takes the next pause after a failed attempt and a new iterator after a success.
    """
    pause_s = first_s
    while True:
        yield pause_s * (1 - JITTER * random.random())  # noqa: S311 - no secret depends on it
        pause_s = min(2 * pause_s, longest_s)
