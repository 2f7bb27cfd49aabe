"""The origin of a result, without the host name, and the files of results."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

# What is measured elsewhere than for this repository's pages leaves the checkout clean.
RESULTS = Path(os.environ.get("GLAIM_RESULTS", Path(__file__).parents[1] / "build" / "results")).resolve()


MOST_OTHER_CORES = 0.2  # a tenth of two cores; idle, the machines here show 0.01 to 0.05
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class OtherWork:
    """The processor time that other work takes from now on.

    The load average tells nothing here, because it counts the processes that are measured too.
    """

    def __init__(self) -> None:
        self._begun_s, self._busy_s, self._own_s = time.monotonic(), _busy_s(), _own_s()

    def seconds(self) -> float:
        """Processor seconds of other processes; a child counts among them until it has ended."""
        return _busy_s() - self._busy_s - (_own_s() - self._own_s)

    def cores(self) -> float:
        """Cores that other work used on average."""
        return round(max(0.0, self.seconds()) / (time.monotonic() - self._begun_s), 2)


def describe(command: str, measured: str = "glaim_stream") -> dict[str, object]:
    """Date, machine, command, commit and Python version; `measured` is the package that the result depends on."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "machine": {"cpu": _cpu_model(), "cores": len(os.sched_getaffinity(0))},
        "command": command,
        "git_commit": _commit(measured),
        "python": platform.python_version(),
    }


def append(name: str, result: Mapping[str, object]) -> Path:
    """Append one line to <name>.jsonl in the folder that GLAIM_RESULTS names, by default build/results."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.jsonl"
    with path.open("a") as file:
        file.write(json.dumps(result) + "\n")
    return path


def _busy_s() -> float:
    """Processor seconds of all processes; interrupts, which the network causes, are left out."""
    user, nice, system = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:4]
    return (int(user) + int(nice) + int(system)) / _TICKS_PER_S


def _own_s() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit(measured: str) -> str:
    """The short commit, with a plus if the working tree of the measured package has changes."""
    here = Path(__file__).parent.parent

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=here, capture_output=True, text=True, check=False).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--short", measured) else "")
