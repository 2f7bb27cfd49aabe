"""A server and its children end with the process that started it, however that process ends."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT, try_lock
from deploy.errors import PortInUse, ServerFailed
from deploy.ports import claim_port
from deploy.process import ServerProcess, log_tail

# A server with a child that outlives it, as with Triton; both have a mark in their command line.
SERVER = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', sys.argv[1]]); time.sleep(600)"  # noqa: E501


def alive(mark: str) -> int:
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            count += mark.encode() in command and b"guard.py" not in command[3]
    return count


def wait_for(count: int, mark: str, timeout_s: float = 10) -> int:
    deadline = time.monotonic() + timeout_s
    while (found := alive(mark)) != count and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


@pytest.fixture
def mark(tmp_path: Path) -> str:
    return f"mark-{tmp_path}"


def server(mark: str, tmp_path: Path, code: str = SERVER, **options: object) -> ServerProcess:
    command = [sys.executable, "-c", code, mark]
    return ServerProcess("Example", command, environment=os.environ, log=tmp_path / "log", **options)  # type: ignore[arg-type]


def test_stop_ends_the_server_and_its_children(mark: str, tmp_path: Path) -> None:
    process = server(mark, tmp_path)
    process.start()
    assert wait_for(2, mark) == 2
    process.stop()
    assert alive(mark) == 0
    assert not process.running
    process.stop()


def test_stop_kills_a_process_that_ignores_sigterm(mark: str, tmp_path: Path) -> None:
    process = server(
        mark, tmp_path, "import signal, time; signal.signal(15, 1); print('deaf', flush=True); time.sleep(600)"
    )
    process.start()
    process.wait_ready(lambda: None if "deaf" in log_tail(process.log) else "not deaf yet", deadline_s=10)
    process.stop(grace_s=0.2)
    assert alive(mark) == 0


def test_server_outlives_the_thread_that_started_it(mark: str, tmp_path: Path) -> None:
    """Linux's parent-death signal refers to a thread: used alone, it would end the server here."""
    process = server(mark, tmp_path)
    starter = threading.Thread(target=process.start)
    starter.start()
    starter.join()
    assert wait_for(2, mark) == 2
    time.sleep(0.3)
    assert process.running
    process.stop()


@pytest.mark.parametrize("with_fork", [False, True])
def test_killing_the_owner_ends_everything(with_fork: bool, mark: str, tmp_path: Path) -> None:
    """Also if a fork of the owner continues and keeps its sockets open."""
    scratch, segment = tmp_path / "scratch", tmp_path / "segment-1"
    scratch.mkdir()
    segment.touch()
    fork = "\nif os.fork() == 0:\n    time.sleep(20)\n    os._exit(0)" if with_fork else ""
    code = f"""
import os, pathlib, sys, time
from deploy.process import ServerProcess
process = ServerProcess("Example", [sys.executable, "-c", {SERVER!r}, {mark!r}], environment=os.environ,
    log=pathlib.Path({str(scratch)!r}) / "log", clean_globs=[{str(tmp_path)!r} + "/segment-*"],
    orphan_dirs=[pathlib.Path({str(scratch)!r})])
process.start(){fork}
time.sleep(600)
"""
    owner = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], cwd=CHECKOUT)
    assert wait_for(2, mark) == 2
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert wait_for(0, mark) == 0
    deadline = time.monotonic() + 5
    while (scratch.exists() or segment.exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not scratch.exists()
    assert not segment.exists()


def test_killing_the_guard_ends_the_server(mark: str, tmp_path: Path) -> None:
    process = server(mark, tmp_path, "import time; time.sleep(600)")
    process.start()
    assert wait_for(1, mark) == 1  # before exec it is a copy of its guard and is not counted
    assert process._guard is not None
    process._guard.kill()
    assert wait_for(0, mark) == 0
    process.stop()


def test_server_that_exits_early_reports_its_status_and_log(mark: str, tmp_path: Path) -> None:
    process = server(mark, tmp_path, "import sys; print('the cause'); sys.exit(3)")
    process.start()
    with pytest.raises(ServerFailed, match=r"(?s)Example ended while starting with exit status 3;.*the cause"):
        process.wait_ready(lambda: "no response", deadline_s=10)


def test_server_that_is_not_ready_in_time_is_killed_with_a_reason(mark: str, tmp_path: Path) -> None:
    process = server(mark, tmp_path, "import time; print('busy', flush=True); time.sleep(600)")
    process.start()
    with pytest.raises(ServerFailed, match=r"(?s)not ready after 1 s: no response yet.*busy"):
        process.wait_ready(lambda: "no response yet", deadline_s=1)
    assert not process.running
    assert wait_for(0, mark) == 0


def test_interrupted_wait_stops_the_server(mark: str, tmp_path: Path) -> None:
    def interrupt() -> str | None:
        raise KeyboardInterrupt

    process = server(mark, tmp_path, "import time; time.sleep(600)")
    process.start()
    with pytest.raises(KeyboardInterrupt):
        process.wait_ready(interrupt, deadline_s=10)
    assert wait_for(0, mark) == 0


def test_lock_is_held_as_long_as_the_server_runs(mark: str, tmp_path: Path) -> None:
    process = server(mark, tmp_path)
    lock = try_lock(tmp_path / ".lock")
    assert lock is not None
    with lock:
        process.start(keep_open=[lock.fileno()])
    assert try_lock(tmp_path / ".lock") is None
    process.kill()
    freed = try_lock(tmp_path / ".lock")
    assert freed is not None
    freed.close()


# A guard whose server is slow to set its signal handlers and gets SIGTERM before that.
EARLY = """
import os, signal, time
from deploy import guard
def slow(*which, joins=os.setpgid, owner=os.getpid()):
    joins(*which)
    time.sleep(0 if os.getpid() == owner else 0.5)
os.setpgid = slow
signal.signal(signal.SIGTERM, signal.SIG_IGN)
server = guard.start(["sleep", "600"], os.getpid())
os.kill(server, signal.SIGTERM)
time.sleep(2)
ended, status = os.waitpid(server, os.WNOHANG)
if not ended:
    os.kill(server, signal.SIGKILL)
print(os.waitstatus_to_exitcode(status) if ended else "runs on")
"""


def test_server_can_be_stopped_immediately_after_its_start() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY], cwd=CHECKOUT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(-signal.SIGTERM), done.stderr


def test_used_port_is_named_with_the_option_that_changes_it() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=rf"port {port} on 127\.0\.0\.1 is in use, Kafka.*--port"):
            claim_port(port, "Kafka", "--port")
    assert claim_port(port, "Kafka", "--port") == port
