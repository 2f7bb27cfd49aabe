import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.paper import jobs

NEVER = float("inf")


def test_all_commands_run_and_failures_are_named(tmp_path: Path) -> None:
    script = (
        "import os, sys, time; open(sys.argv[1], 'w').write(os.environ['OMP_NUM_THREADS']); sys.exit(int(sys.argv[2]))"
    )
    commands = [(f"cell {n}", ["-c", script, str(tmp_path / str(n)), str(n % 2)]) for n in range(4)]
    messages: list[str] = []
    assert sorted(jobs.run(commands, 2, messages.append, NEVER)) == ["cell 1", "cell 3"]
    assert sorted(messages) == ["cell 1  ended with exit code 1", "cell 3  ended with exit code 1"]
    assert [(tmp_path / str(n)).read_text() for n in range(4)] == ["1"] * 4


def test_sigterm_also_ends_the_children() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", "\n".join([
            "from benchmarks.paper import jobs",
            "try:",
            "    with jobs.stoppable():",
            "        child = 'import os, time; print(os.getpid(), flush=True); time.sleep(600)'",
            "        jobs.run([('cell', ['-c', child])], 1, print, float('inf'))",
            "except jobs.Stopped:",
            "    print('stopped', flush=True)",
        ])],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGTERM)
    assert parent.stdout.read() == "stopped\n"
    assert parent.wait(30) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
