"""The processor time of other work, which decides whether a benchmark records its result."""

import subprocess
import sys

from benchmarks.machine import OtherWork

SPENT_S = 0.3
_BURN = f"""
import sys, time
while time.process_time() < {SPENT_S}:
    pass
print("spent", flush=True)
sys.stdin.read()
"""


def test_other_work_is_that_of_processes_which_the_benchmark_has_not_started() -> None:
    other = OtherWork()
    child = subprocess.Popen([sys.executable, "-c", _BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"spent\n"
    running_s = other.seconds()  # a child that runs stands for other work
    child.communicate()
    assert running_s >= 0.9 * SPENT_S
    assert other.seconds() <= running_s - 0.5 * SPENT_S, "the child's time is the benchmark's own once it has ended"
