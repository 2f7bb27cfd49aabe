"""Files are filled without anything that only POSIX systems have, and without the parts that only a worker needs.

This machine is no Windows. The modules and names that Windows lacks are taken away from an interpreter instead.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = """
import os, signal, sys

GONE = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios"}  # Windows has none of them
NOT_NEEDED = {"aiokafka", "faust", "kafka", "torch", "tritonclient"}

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in GONE | NOT_NEEDED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for name in GONE:
    sys.modules.pop(name, None)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1"):
    delattr(signal, name)
for name in (
    "O_DIRECTORY", "O_NOFOLLOW", "chown", "fchmod", "fchown", "fork", "geteuid", "getuid", "killpg",
    "register_at_fork", "sched_getaffinity",
):
    delattr(os, name)
"""
COMMAND = (
    WITHOUT
    + """
from glaim_stream.commands.main import main
sys.argv[0] = "glaim-stream"
main()
"""
)
TABLE = (
    WITHOUT
    + """
import numpy as np
from glaim_stream import Imputer, impute
steps = np.arange(400.0)
table = np.stack([np.sin(steps / 9), 2 * np.sin(steps / 9) + 0.01 * np.cos(steps)], axis=1)
holed = table.copy()
holed[5::11, 0] = np.nan
filled = impute(holed)
assert np.abs(filled - table).max() < 0.1, np.abs(filled - table).max()
assert np.isfinite(Imputer().fit(holed).transform(holed)).all()
"""
)


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GLAIM_")}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, env=environment, check=False
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of two sensors that move together, with 37 and 31 holes, in lines that end as Windows' do."""
    lines = ["time,a,b"]
    for step in range(400):
        a, b = (step * 7 % 50) / 10, (step * 7 % 50) / 5
        holes = step % 11 == 3, step % 13 == 5
        lines.append(f"2026-01-01T{step // 60:02d}:{step % 60:02d}:00,{'' if holes[0] else a},{'' if holes[1] else b}")
    path = tmp_path / "pumps.csv"
    path.write_bytes("\r\n".join([*lines, ""]).encode())
    return path


def test_a_file_is_filled(file: Path) -> None:
    out, report = file.with_name("filled.csv"), file.with_name("filled.html")
    done = run(COMMAND, "fill", str(file), "--out", str(out), "--report", str(report))
    assert done.returncode == 0, done.stderr
    assert report.stat().st_size > 1000
    lines = out.read_bytes().split(b"\r\n")
    assert len(lines) == 402
    assert all(cell for line in lines[:-1] for cell in line.split(b","))


def test_a_table_is_filled() -> None:
    done = run(TABLE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [["worker", "-h"], ["schema"]])
def test_commands_answer(arguments: list[str]) -> None:
    done = run(COMMAND, *arguments)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
