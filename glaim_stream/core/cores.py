"""The number of processor cores that this process may use."""

from __future__ import annotations

import os
from pathlib import Path

_LIMIT = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds in a period, and its length


def usable_cores() -> int:
    """Cores that this process may use: those that its affinity allows, and no more than its container's limit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _LIMIT.read_text().split()
        return max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        return cores
