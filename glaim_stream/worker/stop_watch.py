"""Ends the process when it does not stop by itself in time, whatever its event loop or its main thread waits for.

The event loop stops the worker in order: it waits for the output in flight, commits and leaves the group. Where the
broker, Triton or a disk does not answer, it may wait for ever. So a thread of its own receives the signals too, which
the interpreter writes to a socket the moment they arrive, even while the main thread is stuck in a system call.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)

EXIT_UNFINISHED = 1
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_STOPPING, _DISMISSED = b"\0", b"\xff"  # no signal has these numbers
# Some supervisors send a signal to the process and to its group, so it arrives twice.
_SAME_S = 0.2
_LOG_PATIENCE_S = 1.0  # the main thread may hold the log's lock while it writes to a pipe without a reader


class StopWatch:
    """A thread that waits for SIGTERM and SIGINT and counts the time from the first one."""

    def __init__(
        self,
        grace_s: float,
        *,
        unanswered: Callable[[], str] = lambda: "Everything is answered",
        end: Callable[[int], object] = os._exit,
    ) -> None:
        """Prepare; `start` begins.

        Args:
            grace_s: longest duration of a stop, seconds.
            unanswered: returns a sentence for the log on the work that a stop would leave unanswered.
            end: ends the process with an exit status, without any clean-up that could wait.
        """
        self.grace_s, self._unanswered, self._end_process = grace_s, unanswered, end
        self._signals, self._written = socket.socketpair()
        self._signals.setblocking(False)
        self._written.setblocking(False)
        self._pass_on_to: int | None = None  # descriptor on which the event loop gets signals; None: nothing runs yet
        self._handlers: dict[signal.Signals, Any] = {}  # handlers from before the start

    def start(self) -> None:
        """Receive the signals; called by the main thread.

        Until `share` the process ends at the first one: it has taken nothing yet. As process 1 of a container it
        would otherwise ignore a signal without a handler.
        """
        self._handlers = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
        signal.set_wakeup_fd(self._written.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, name="stop-watch", daemon=True).start()

    def dismiss(self) -> None:
        """Restore the previous signal handlers: the worker has not started. Called by the main thread."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._written.send(_DISMISSED)

    def share(self) -> None:
        """Pass the signals on to the event loop, which has just installed its handlers; called by the main thread."""
        self._pass_on_to = signal.set_wakeup_fd(self._written.fileno(), warn_on_full_buffer=False)

    def stopping(self) -> None:
        """Count the time from now on, if no signal has come before: the worker stops for another reason."""
        self._written.send(_STOPPING)

    def _watch(self) -> None:
        end_s: float | None = None  # time at which to end the process
        first_s: float | None = None  # time of the first signal
        while True:
            left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
            if not select.select([self._signals], [], [], left_s)[0]:
                return self._end(f"did not stop in {self.grace_s:g} s", EXIT_UNFINISHED)
            received, now_s = self._signals.recv(4096), time.monotonic()
            if _DISMISSED in received:
                return None
            number = next((number for number in received if number in _SIGNALS), None)
            if self._pass_on_to is not None:
                _pass_on(received, self._pass_on_to)
            elif number is not None:
                return self._end(f"got {signal.Signals(number).name} before it had started", 128 + number)
            if number is not None and first_s is not None and now_s - first_s > _SAME_S:
                return self._end(f"got {signal.Signals(number).name} while it was stopping", 128 + number)
            if number is not None and first_s is None:
                first_s = now_s
            if end_s is None and (number is not None or _STOPPING in received):
                end_s = now_s + self.grace_s

    def _end(self, why: str, status: int) -> None:
        """Log why, and end the process even where the log cannot be written."""
        writer = threading.Thread(target=self._log, args=(why,), daemon=True)
        writer.start()
        writer.join(_LOG_PATIENCE_S)
        self._end_process(status)

    def _log(self, why: str) -> None:
        log.critical(
            "the worker %s and ends now. %s. Nothing is lost: input that is not committed is delivered again",
            why, self._unanswered(),
        )  # fmt: skip
        for flush in [*(handler.flush for handler in logging.getLogger().handlers), sys.stdout.flush, sys.stderr.flush]:
            flush()


def _pass_on(received: bytes, event_loop: int) -> None:
    with contextlib.suppress(OSError):  # the event loop is closed, or has signals enough
        os.write(event_loop, received.replace(_STOPPING, b""))
