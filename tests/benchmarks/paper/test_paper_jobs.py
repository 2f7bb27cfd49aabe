import os
import signal
import subprocess
import sys
import time
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


def test_nothing_is_started_after_the_deadline(tmp_path: Path) -> None:
    command = ["-c", f"open({str(tmp_path / 'started')!r}, 'w')"]
    assert jobs.run([("cell", command)], 1, print, time.monotonic() - 1) == []
    assert not (tmp_path / "started").exists()


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


def test_sigterm_while_a_command_starts_ends_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def start_slowly(command: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        started.append(start(command, env=env))
        os.kill(os.getpid(), signal.SIGTERM)
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start_slowly)
    with pytest.raises(jobs.Stopped), jobs.stoppable():
        jobs.run([("cell", ["-c", "import time; time.sleep(600)"])], 1, print, NEVER)
    assert started[0].poll() == -signal.SIGTERM
