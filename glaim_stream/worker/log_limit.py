"""Warnings of the libraries below that come by the hundred: a few of a kind are logged, the others counted."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

_MOST_KINDS = 1000  # a library that writes values into its messages makes every one a kind


@dataclass
class _Kind:
    since_s: float
    passed: int = 0
    held: int = 0


class LogLimit(logging.Filter):
    """Lets so many warnings of a kind pass in a while; the first one after it says how many were held back.

    While a broker is away its driver logs every attempt of every task, hundreds a second, and the lines that say what
    the worker does drown. A kind is the logger, the level and the message before its values are put in. What this
    program says itself always passes.
    """

    def __init__(self, most: int = 3, every_s: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing said.

        Args:
            most: of a kind that pass in each while.
            every_s: a while, in seconds.
            clock: seconds.
        """
        super().__init__()
        self._most, self._every_s, self._clock = most, every_s, clock
        self._kinds: dict[tuple[str, int, str], _Kind] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record passes; one that follows others held back says so."""
        if record.levelno < logging.WARNING or record.name.partition(".")[0] == __name__.partition(".")[0]:
            return True
        now_s, name = self._clock(), (record.name, record.levelno, str(record.msg))
        with self._lock:
            kind = self._kinds.get(name)
            if kind is None or now_s - kind.since_s >= self._every_s:
                if len(self._kinds) >= _MOST_KINDS:
                    self._kinds.clear()
                held = kind.held if kind is not None else 0
                kind = self._kinds[name] = _Kind(now_s)
                if held:
                    record.msg = f"{record.msg} (and {held} more like it before)"
            passes = kind.passed < self._most
            kind.passed += passes
            kind.held += not passes
        return passes
