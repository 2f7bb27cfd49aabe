"""Several cells at once, each in a process of its own with one thread: small networks gain more so than by threads."""

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
    """SIGTERM came while no training was listening for it."""

    signal = signal.SIGTERM


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM raises Stopped here, as Ctrl-C raises KeyboardInterrupt."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Stopped

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run(commands: Sequence[tuple[str, list[str]]], jobs: int, say: Callable[[str], None], until: float) -> list[str]:
    """Run commands, at most `jobs` at a time, each with one thread.

    Args:
        commands: Name and arguments of each.
        jobs: Processes at a time.
        say: Takes a line when one ends badly.
        until: Monotonic seconds after which none is begun any more.

    Returns:
        The names of those that failed.
    """
    waiting = list(commands)
    running: list[tuple[str, subprocess.Popen[bytes]]] = []
    failed = []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    try:
        while waiting or running:
            while waiting and len(running) < jobs and time.monotonic() < until:
                name, arguments = waiting.pop(0)
                process = subprocess.Popen([sys.executable, *arguments], env=environment)
                running.append((name, process))
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
