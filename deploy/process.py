"""One server process: start it, wait until it is ready, show its log on failure, stop it with all its children."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deploy.errors import ServerFailed

_GUARD = Path(__file__).with_name("guard.py")


def log_tail(path: Path, lines: int = 30, noise: re.Pattern[str] | None = None) -> str:
    """The last lines of a log, without those that match `noise`, indented for an error message."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 64 * 1024))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"    (no log: {error})"
    kept = [line for line in text.splitlines() if noise is None or not noise.search(line)]
    return "\n".join("    " + line[:300] for line in kept[-lines:]) or "    (the log is empty)"


class ServerProcess:
    """A server process that never outlives the Python process that started it, even if that is killed.

    `start` and `stop` may be called from any thread, but not from two threads at once.

    Args:
        name: Name of the server in messages.
        command: Program and arguments.
        environment: Complete environment of the server.
        log: File to which standard output and error are appended.
        clean_globs: Files to delete once the server has ended, such as its shared memory segments.
        orphan_dirs: Directories to delete if this process dies without stopping the server.
        noise: Log lines to leave out of error messages because they never show the cause of a failure.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        clean_globs: Sequence[str] = (),
        orphan_dirs: Sequence[Path] = (),
        noise: re.Pattern[str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._environment = dict(environment)
        self._clean_globs = list(clean_globs)
        self._orphan_dirs = [str(directory) for directory in orphan_dirs]
        self._noise = noise
        self._guard: subprocess.Popen[bytes] | None = None
        self._guard_socket: socket.socket | None = None
        self.pid: int | None = None

    def start(self, keep_open: Sequence[int] = ()) -> None:
        """Start the server and return as soon as it has a process id, before it accepts requests.

        Args:
            keep_open: File descriptors, such as locks, to keep open until the server and its children have ended.

        Raises:
            ServerFailed: If the server is already running, or its guard cannot be started.
        """
        if self.running:
            raise ServerFailed(f"{self.name} is already running (pid {self.pid})")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        own_end, guard_end = socket.socketpair()
        options: list[str] = []
        for pattern in self._clean_globs:
            options += ["--clean", pattern]
        for descriptor in keep_open:
            options += ["--keep-open", str(descriptor)]
        for directory in self._orphan_dirs:
            options += ["--orphan-dir", directory]
        # -I -S: the guard starts in 40 ms and ignores the server's PYTHONPATH.
        arguments = [sys.executable, "-I", "-S", str(_GUARD), str(guard_end.fileno()), *options, "--", *self._command]
        with guard_end, self.log.open("ab") as log:
            self._guard = subprocess.Popen(
                arguments,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[guard_end.fileno(), *keep_open],
                start_new_session=True,
            )
        self._guard_socket = own_end
        with own_end.makefile("r") as lines:
            answer = lines.readline()
        if not answer.strip().isdigit():
            self._release()
            raise ServerFailed(f"{self.name}: its guard did not start; its log ends with\n{self._tail()}")
        self.pid = int(answer)

    @property
    def running(self) -> bool:
        """True while the server's process exists."""
        return self._guard is not None and self._guard.poll() is None

    @property
    def ending(self) -> str:
        """The exit status of a server that has ended, 128 and the number of a signal, with the tail of its log."""
        code = self._guard.returncode if self._guard is not None else None
        return f"exit status {code}; its log ends with\n{self._tail()}"

    def wait_ready(self, check: Callable[[], str | None], deadline_s: float, interval_s: float = 0.1) -> None:
        """Call `check` until it returns None, and kill the server if that fails or is interrupted.

        Args:
            check: Returns None once the server is ready, otherwise a description of what is still missing.
            deadline_s: Time limit.
            interval_s: Pause between two calls.

        Raises:
            ServerFailed: If the process ends or the deadline passes; the message ends with the tail of the log.
        """
        try:
            self._poll(check, deadline_s, interval_s)
        except BaseException:
            # Includes Ctrl-C: a failed start leaves nothing running.
            self.kill()
            raise

    def _poll(self, check: Callable[[], str | None], deadline_s: float, interval_s: float) -> None:
        give_up = time.monotonic() + deadline_s
        while True:
            # Tested before `check`, which another server on the same port could answer after this one has died.
            if not self.running:
                raise ServerFailed(f"{self.name} ended while starting with {self.ending}")
            missing = check()
            if missing is None:
                return
            if time.monotonic() > give_up:
                raise ServerFailed(
                    f"{self.name} was not ready after {deadline_s:.0f} s: {missing}; its log ends with\n{self._tail()}"
                )
            time.sleep(interval_s)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server alone, not to its children. Does nothing if the server has ended."""
        if self.running and self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def stop(self, grace_s: float = 20.0) -> None:
        """Send SIGTERM, and after `grace_s` SIGKILL to all remaining processes. Idempotent."""
        self.signal(signal.SIGTERM)
        if not self._wait(grace_s):
            self.kill()
        self._release()

    def kill(self) -> None:
        """Send SIGKILL, which like a crash gives the server no chance to clean up."""
        self.signal(signal.SIGKILL)
        if not self._wait(10.0):
            raise ServerFailed(f"{self.name} (pid {self.pid}) survived SIGKILL for 10 s")
        self._release()

    def _tail(self) -> str:
        return log_tail(self.log, noise=self._noise)

    def _wait(self, timeout_s: float) -> bool:
        """Wait for the guard, which ends after the whole process group; False on timeout."""
        if self._guard is None:
            return True
        try:
            self._guard.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _release(self) -> None:
        if self._guard_socket is not None:
            self._guard_socket.close()  # makes the guard, if it still runs, kill the process group
        if self._guard is not None:
            self._guard.wait()
        self._guard_socket = self._guard = self.pid = None
