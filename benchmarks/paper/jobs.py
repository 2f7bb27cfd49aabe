"""Several cells at once, each in its own process with one thread, which suits small networks better than threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

POLL_S = 0.5


class Stopped(Exception):
    """SIGTERM arrived outside a training."""

    signal = signal.SIGTERM


@contextmanager
def stoppable() -> Iterator[None]:
    """Make SIGTERM raise Stopped, as Ctrl-C raises KeyboardInterrupt."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Stopped

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Deliver the signals that would stop the process only at the end of the block."""
    came: list[int] = []
    stops = (signal.SIGTERM, signal.SIGINT)
    before = {each: signal.signal(each, lambda number, _: came.append(number)) for each in stops}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)


def until_stopped(work: Callable[[], None]) -> int:
    """Do work that a later call continues; return 0, 130 where Ctrl-C stopped it or 143 where SIGTERM did."""
    try:
        with stoppable():
            work()
    except (Stopped, KeyboardInterrupt) as stop:
        print("stopped; the same command continues", file=sys.stderr)
        return 128 + int(getattr(stop, "signal", signal.SIGINT))
    return 0


def run(commands: Sequence[tuple[str, list[str]]], jobs: int, say: Callable[[str], None], until: float) -> list[str]:
    """Run commands, at most `jobs` at a time, each with one thread.

    Args:
        commands: Name and arguments of each.
        jobs: Processes at a time.
        say: Receives a line when a command fails.
        until: Monotonic seconds after which no further one begins.

    Returns:
        The names of the failed ones.
    """
    waiting = list(commands)
    running: list[tuple[str, subprocess.Popen[bytes]]] = []
    failed = []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    try:
        while waiting or running:
            while waiting and len(running) < jobs and time.monotonic() < until:
                name, arguments = waiting.pop(0)
                with _undisturbed():  # a process that is not in the list would outlive this one
                    running.append((name, subprocess.Popen([sys.executable, *arguments], env=environment)))
            if not running:
                break
            time.sleep(POLL_S)
            for name, process in [pair for pair in running if pair[1].poll() is not None]:
                running.remove((name, process))
                if process.returncode:
                    failed.append(name)
                    say(f"{name}  ended with exit code {process.returncode}")
    finally:
        for _, process in running:
            process.terminate()
        for _, process in running:
            process.wait()
    return failed
