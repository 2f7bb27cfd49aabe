"""Limits repeated warnings of libraries: a few of each kind are logged, and the others are counted."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

_MOST_KINDS = 1000  # a library that formats values into its messages makes each of them a kind


@dataclass
class _Kind:
    since_s: float
    passed: int = 0
    held_back: int = 0


class LogLimit(logging.Filter):
    """A filter that passes a limited number of warnings of each kind in an interval.

    The first warning after the interval states how many were held back. While a broker is away, its driver logs every
    attempt of every task, hundreds a second, and the lines about the worker itself are lost among them. A kind is a
    logger, a level and a message before its values are formatted. Lines of this program always pass.
    """

    def __init__(self, most: int = 3, every_s: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without any kind.

        Args:
            most: warnings of a kind that pass in each interval.
            every_s: the interval, seconds.
            clock: a monotonic clock, seconds.
        """
        super().__init__()
        self._most, self._every_s, self._clock = most, every_s, clock
        self._kinds: dict[tuple[str, int, str], _Kind] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record passes; one that follows others that were held back states their number."""
        if record.levelno < logging.WARNING or record.name.partition(".")[0] == __name__.partition(".")[0]:
            return True
        now_s, name = self._clock(), (record.name, record.levelno, str(record.msg))
        with self._lock:
            kind = self._kinds.get(name)
            if kind is None or now_s - kind.since_s >= self._every_s:
                if len(self._kinds) >= _MOST_KINDS:
                    self._kinds.clear()
                held = kind.held_back if kind is not None else 0
                kind = self._kinds[name] = _Kind(now_s)
                if held:
                    record.msg = f"{record.msg} (and {held} more like it before)"
            passes = kind.passed < self._most
            kind.passed += passes
            kind.held_back += not passes
        return passes
