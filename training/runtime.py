"""The process and the machine a run happens on."""

from __future__ import annotations

import ctypes
import platform
import sys
from pathlib import Path

import torch


def keep_memory() -> None:
    """Tell glibc to keep freed memory: tensors of a few MB otherwise fault in anew at every operation."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):  # not so in musl
            libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
            libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


def machine() -> str:
    """The processor and torch in words; no host name."""
    name = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        if lines:
            name = f"{lines[0].split(':', 1)[1].strip()} ({len(lines)} cores)"
    return f"{name}, torch {torch.__version__.split('+')[0]}"
