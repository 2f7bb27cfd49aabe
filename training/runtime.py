"""The process, the machine and the progress of a run."""

from __future__ import annotations

import ctypes
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Self, TextIO

import torch
from tqdm import tqdm

from training.errors import ConfigError


class Interrupted(KeyboardInterrupt):
    """A run has stopped on request, after writing its checkpoint; `signal` is the signal that requested it."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal


class StopRequest:
    """A shutdown request: the first SIGTERM or Ctrl-C sets `requested`, a second Ctrl-C interrupts at once.

    Outside the main thread Python receives no signals, so `requested` is never set there.
    """

    signals = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self.signal = 0

    @property
    def requested(self) -> bool:
        """Whether the work should stop."""
        return self.signal != 0

    def __enter__(self) -> Self:
        self._before = {}
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._take) for number in self.signals}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, _: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


def known_device(name: str) -> torch.device:
    """Return the device of that name, without using it.

    Raises:
        ConfigError: the device is unknown, or is a GPU that torch cannot use.
    """
    try:
        found = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"expected train.device cpu or cuda, found {name!r}") from error
    if found.type not in ("cpu", "cuda"):
        raise ConfigError(f"expected train.device cpu or cuda, found {name!r}")
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"train.device is {name}, but torch {torch.__version__} finds no CUDA device")
    if (found.index or 0) >= (torch.cuda.device_count() if found.type == "cuda" else 1):
        raise ConfigError(f"train.device is {name}, but there is no device of that number")
    return found


def device(name: str, gpu: int = 0) -> torch.device:
    """Return the device of that name and make it the one to use; of several GPUs, the one of this process.

    Raises:
        ConfigError: the device is unknown, or is a GPU that torch cannot use.
    """
    found = known_device(name)
    if found.type == "cuda":
        found = torch.device("cuda", gpu if found.index is None else found.index)
        torch.cuda.set_device(found)
    return found


def keep_memory() -> None:
    """Tell glibc to keep freed memory: otherwise tensors of a few MB cause page faults at every operation."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):  # absent in musl
            libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
            libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


def machine() -> str:
    """Describe the processor, the GPU if this process uses one, and the version of torch, without the host name."""
    name = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        if lines:
            name = f"{lines[0].split(':', 1)[1].strip()} ({len(lines)} cores)"
    if torch.cuda.is_initialized():
        name += f", {torch.cuda.get_device_name()}"
    return f"{name}, torch {torch.__version__.split('+')[0]}"


EVERY_S = 30.0


def describe(seconds: float) -> str:
    """Format seconds as 1h02m or 3m05s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}h{minutes % 60:02d}m" if minutes >= 60 else f"{minutes}m{rest:02d}s"


class ProgressLine:
    """Progress of consecutive pieces of work: `begin`, `step` after each unit, `end`.

    Args:
        say: Receives a plain line.
        stream: Output of the bar; if it is not a terminal, lines are written instead, one every half minute.
        clock: Returns seconds; for tests.
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
