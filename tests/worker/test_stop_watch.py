"""A process that cannot stop in order ends all the same, in time, and says what it leaves."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from deploy.cache import CHECKOUT
from glaim_stream.core.errors import GlaimError
from glaim_stream.core.settings import Settings
from glaim_stream.worker.run import STOP_GRACE_S
from glaim_stream.worker.stop_watch import StopWatch

run = import_module("glaim_stream.worker.run")  # the door of the package has the function of that name
GRACE_S = 1.0
LONG_S = 300.0
SLACK_S = 30.0  # a busy machine; an end that is not by the watch takes LONG_S or for ever

PROGRAM = """
import asyncio, logging, signal, sys, time
from glaim_stream.worker.stop_watch import StopWatch

logging.basicConfig()
fifo, grace_s = sys.argv[1], float(sys.argv[2])
watch = StopWatch(grace_s, unanswered=lambda: "Not answered: in-0 offsets 3 to 7")

async def main():
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    watch.share()
    print("up", flush=True)
    {up}
    await stop.wait()
    print("stopping", flush=True)
    {stop}

watch.start()
{start}
asyncio.run(main())
"""


@contextmanager
def program(
    tmp_path: Path, *, start: str = "", up: str = "pass", stop: str = "pass", grace_s: float = GRACE_S
) -> Iterator[subprocess.Popen[str]]:
    """Run a program with this code at its start, once it is up, and at its stop; opening `fifo` blocks for ever."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    text = PROGRAM.replace("{start}", start).replace("{up}", up).replace("{stop}", stop)
    process = subprocess.Popen(
        [sys.executable, "-c", text, str(fifo), str(grace_s)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().strip() == line


def test_a_stop_in_order_is_left_alone(tmp_path: Path) -> None:
    with program(tmp_path) as process:
        said(process, "up")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SLACK_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    "stop",
    ["await asyncio.Event().wait()", "open(fifo)", "asyncio.get_running_loop().run_in_executor(None, open, fifo)"],
    ids=["the event loop waits", "the main thread is stuck in a call", "a thread is joined at exit"],
)
def test_a_stop_that_takes_longer_ends_with_what_is_unanswered(stop: str, tmp_path: Path) -> None:
    with program(tmp_path, stop=stop) as process:
        said(process, "up")
        start_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=SLACK_S)
    assert process.returncode == 1
    assert time.monotonic() - start_s >= GRACE_S
    assert "did not stop in 1 s" in errors
    assert "Not answered: in-0 offsets 3 to 7" in errors


def test_a_log_that_nobody_reads_does_not_hold_the_end_up(tmp_path: Path) -> None:
    """The main thread holds the log's lock while it waits for the pipe to be read."""
    with program(tmp_path, stop="logging.error('x' * 10_000_000)") as process:
        said(process, "up")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SLACK_S) == 1


def test_a_signal_reaches_it_while_the_main_thread_is_stuck(tmp_path: Path) -> None:
    """A disk that does not answer: the event loop cannot even note the signal."""
    with program(tmp_path, up="open(fifo)") as process:
        said(process, "up")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SLACK_S) == 1


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(second: signal.Signals, tmp_path: Path) -> None:
    with program(tmp_path, stop="await asyncio.Event().wait()", grace_s=LONG_S) as process:
        said(process, "up")
        process.send_signal(signal.SIGTERM)
        said(process, "stopping")
        time.sleep(0.5)  # more than a supervisor needs to send a signal to a process and its group
        process.send_signal(second)
        _, errors = process.communicate(timeout=SLACK_S)
    assert process.returncode == 128 + second
    assert f"got {second.name} while it was stopping" in errors


def test_a_signal_that_arrives_twice_is_one(tmp_path: Path) -> None:
    """`timeout` sends it to the process and to its group."""
    with program(tmp_path, stop="await asyncio.sleep(0.5)", grace_s=LONG_S) as process:
        said(process, "up")
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert process.wait(SLACK_S) == 0


def test_before_the_event_loop_runs_the_first_signal_ends_it(tmp_path: Path) -> None:
    """As process 1 of a container it would ignore SIGTERM without a handler, for instance while a broker is away."""
    with program(tmp_path, start="print('up', flush=True); time.sleep(300)", grace_s=LONG_S) as process:
        said(process, "up")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=SLACK_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert "got SIGTERM before it had started" in errors


def test_a_stop_without_a_signal_takes_no_longer(tmp_path: Path) -> None:
    with program(tmp_path, start="watch._pass_on_to = -1; watch.stopping(); time.sleep(300)") as process:
        _, errors = process.communicate(timeout=SLACK_S)
    assert process.returncode == 1
    assert "did not stop in 1 s" in errors


def test_a_worker_that_does_not_start_leaves_the_signals_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[int] = []
    ended: list[int] = []
    monkeypatch.setattr(run, "StopWatch", partial(StopWatch, end=ended.append))
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        with pytest.raises(GlaimError):
            run.run_worker(Settings(catalogue=tmp_path / "absent.yaml", imputer="last_value"))
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    for thread in threading.enumerate():
        if thread.name == "stop-watch":
            thread.join(SLACK_S)
    assert (received, ended) == ([signal.SIGTERM], [])


def test_the_kubelet_waits_longer_than_a_worker() -> None:
    values = yaml.safe_load((CHECKOUT / "helm" / "glaim-stream" / "values.yaml").read_text())
    assert values["worker"]["terminationGracePeriodSeconds"] == STOP_GRACE_S + 5
