"""Progress and remaining time of a run: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from tqdm import tqdm

EVERY_S = 30.0


def describe(seconds: float) -> str:
    """Format seconds as 1h02m or 3m05s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}h{minutes % 60:02d}m" if minutes >= 60 else f"{minutes}m{rest:02d}s"


class Progress:
    """Progress of consecutive pieces of work: `begin`, `step` after each unit, `end`.

    Args:
        say: Receives a plain line.
        stream: Output of the bar; if it is not a terminal, lines are written instead, one every half minute.
        clock: Seconds; for tests.
        hidden: Show no bar even in a terminal, because another process shows it.
    """

    def __init__(
        self, say: Callable[[str], None], stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic,
        *, hidden: bool = False,
    ) -> None:  # fmt: skip
        self._say, self._clock = say, clock
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty() and not hidden
        self._spoken = clock()
        self._bar: Any = None

    def begin(self, label: str, total: int, done: int = 0) -> None:
        """Begin a piece of `total` units, `done` of them before a resume."""
        self._label, self._total, self._done, self._first = label, total, done, done
        self._began = self._clock()
        if self._terminal:
            self._bar = tqdm(total=total, initial=done, desc=label, leave=False, unit="it", file=self._stream)

    def step(self, note: Callable[[], str] = str, *, count: int = 1) -> None:
        """Count units. `note` adds to a line and is called only when one is due, because it may be expensive."""
        self._done += count
        if self._bar is not None:
            self._bar.update(count)
            return
        now = self._clock()
        if now - self._spoken >= EVERY_S and self._done < self._total:
            pace = (now - self._began) / (self._done - self._first)
            left = describe(pace * (self._total - self._done))
            self._line(f"{self._label}: {self._done} of {self._total}{note()}, {1 / pace:.3g} it/s, {left} left")

    def end(self) -> None:
        """End the piece; the caller logs its result."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        self._spoken = self._clock()

    def _line(self, text: str) -> None:
        self._spoken = self._clock()
        self._say(text)
