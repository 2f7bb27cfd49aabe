"""Runs one server as its child and sees to it that nothing of it outlives whoever wanted it.

Started by `deploy.process`, as a script of its own, never imported: it must stay small and quick to start.

Why not just PR_SET_PDEATHSIG on the server: that signal fires when the *thread* that started it ends, not the process,
and it does not reach grandchildren (Triton's python interpreters). The guard is told of its owner's death by the end of
a socket, or by having a new parent, kills the whole process group, and cleans up. The server gets PDEATHSIG from the
guard's only thread, so it does not outlive the guard either.

Usage: guard.py FD [--keep-open FD]... [--clean GLOB]... [--orphan-dir DIR]... -- COMMAND...
  FD            a connected socket: the guard writes the server's pid and a newline; end of file kills everything.
  --keep-open   FD, a lock, stays open here (not in the server) until the server is gone.
  --clean       paths matching GLOB are deleted whenever the server is gone (shared memory segments).
  --orphan-dir  DIR is deleted if the owner died (it deletes its own temporary directories otherwise).
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
    """Best effort: macOS has no prctl, and there the socket and the parent's pid still do the work."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def start(command: list[str], guard_pid: int) -> int:
    """Fork the server into a process group of its own; returns its process id.

    A signal that comes before the child has its own answers to signals waits for them: it would else be ignored, as the
    guard ignores it, and whoever stops a server that has just started would wait in vain.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # here as well as in the child: whoever comes first, nobody sees it without its group
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
        os.execvp(command[0], command)  # noqa: S606, no shell on purpose
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]}: {error}\n")
        sys.stderr.flush()
    os._exit(127)


def kill_group(group: int) -> None:
    """Kill what is left of the server's process group and reap it; we are its subreaper."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            return  # nobody left
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def main() -> int:
    """Start the server, wait for its end or its owner's, clean up; returns the server's exit status."""
    separator = sys.argv.index("--")
    options, command = sys.argv[2:separator], sys.argv[separator + 1 :]
    values: dict[str, list[str]] = {"--keep-open": [], "--clean": [], "--orphan-dir": []}
    for name, value in zip(options[::2], options[1::2], strict=True):
        values[name].append(value)
    for descriptor in values["--keep-open"]:
        os.set_inheritable(int(descriptor), False)

    # A terminal's Ctrl-C and hang-up are the owner's business: it stops the server in order.
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
        while True:  # the server, or a grandchild that was left to us
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
        for path in glob.glob(pattern):  # noqa: PTH207, pathlib would double the guard's start
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
