"""Runs one server as a child process and makes sure that it ends with its owner, the process that started the guard.

`deploy.process` starts this file as a script and never imports it: it must stay small and start quickly.

PR_SET_PDEATHSIG on the server alone is not enough: that signal fires when the *thread* that started the server ends,
not the process, and it does not reach grandchildren (Triton's Python interpreters). The guard notices the death of its
owner by the end of a socket or by a change of its parent, then kills the whole process group and cleans up. The server
gets PDEATHSIG from the guard's only thread, so it does not outlive the guard either.

Usage: guard.py FD [--keep-open FD]... [--clean GLOB]... [--orphan-dir DIR]... -- COMMAND...
  FD            A connected socket: the guard writes the server's pid and a newline; end of file kills all processes.
  --keep-open   FD, a lock, stays open here (not in the server) until the server has ended.
  --clean       Paths matching GLOB are deleted after the server has ended (shared memory segments).
  --orphan-dir  DIR is deleted if the owner died (otherwise the owner deletes its own temporary directories).
"""

import contextlib
import ctypes
import glob
import os
import select
import shutil
import signal
import socket
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OWNER_POLL_S = 0.5


def prctl(option: int, value: int) -> None:
    """Call prctl where it exists; on macOS the socket and the parent's pid have to suffice."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def start(command: list[str], guard_pid: int) -> int:
    """Fork the server into its own process group and return its process id.

    Ending signals are blocked until the child has reset its handlers. Otherwise the child would ignore them, as the
    guard does, and stopping a server that has just started would have no effect.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # in the child as well: neither process may see it outside its group
        return pid
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for ending in ENDING:
            signal.signal(ending, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard_pid:
            os._exit(1)
        os.execvp(command[0], command)  # noqa: S606, deliberately without a shell
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]}: {error}\n")
        sys.stderr.flush()
    os._exit(127)


def kill_group(group: int) -> None:
    """Kill the rest of the server's process group and reap it; the guard is its subreaper."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            return  # no process is left
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def main() -> int:
    """Start the server, wait until it or its owner ends, and clean up; returns the server's exit status."""
    separator = sys.argv.index("--")
    options, command = sys.argv[2:separator], sys.argv[separator + 1 :]
    values: dict[str, list[str]] = {"--keep-open": [], "--clean": [], "--orphan-dir": []}
    for name, value in zip(options[::2], options[1::2], strict=True):
        values[name].append(value)
    for descriptor in values["--keep-open"]:
        os.set_inheritable(int(descriptor), False)

    # Ctrl-C and hang-up of the terminal are left to the owner, which shuts the server down.
    for ending in ENDING:
        signal.signal(ending, signal.SIG_IGN)
    child_ended, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    child_ended.setblocking(False)
    signal.set_wakeup_fd(wakeup.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    prctl(PR_SET_CHILD_SUBREAPER, 1)

    owner = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(owner.fileno(), False)
    owner_pid = os.getppid()
    server = start(command, os.getpid())
    orphaned = False
    try:
        owner.sendall(f"{server}\n".encode())
    except OSError:
        orphaned = True

    status = None
    while status is None and not orphaned:
        readable, _, _ = select.select([owner, child_ended], [], [], OWNER_POLL_S)
        if child_ended in readable:
            child_ended.recv(4096)
        if owner in readable and not owner.recv(1):
            orphaned = True
        # A fork of the owner (multiprocessing) may hold the socket open after the owner itself has died.
        orphaned = orphaned or os.getppid() != owner_pid
        while True:  # reap the server, or a grandchild that was reparented to the guard
            try:
                pid, ended = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == server:
                status = ended

    kill_group(server)
    for pattern in values["--clean"]:
        for path in glob.glob(pattern):  # noqa: PTH207, pathlib would double the guard's start-up time
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108, as above
    if orphaned:
        for directory in values["--orphan-dir"]:
            shutil.rmtree(directory, ignore_errors=True)
        return 0
    code = os.waitstatus_to_exitcode(status if status is not None else 0)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
