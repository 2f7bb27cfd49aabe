"""The base class of the local servers, and a program that runs one in the foreground."""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

from deploy.errors import DeployError
from deploy.process import ServerProcess


class LocalServer(ABC):
    """A server that ends with this process; as a context manager it starts and stops itself."""

    def __init__(self) -> None:
        self._process: ServerProcess | None = None

    @abstractmethod
    def start(self) -> Self:
        """Start the server and wait until it answers a real request."""

    @abstractmethod
    def stop(self) -> None:
        """Shut the server down and delete its temporary files. Idempotent."""

    def kill(self) -> None:
        """Send SIGKILL to simulate a crash; the server's data stays for `restart`."""
        if self._process is not None:
            self._process.kill()

    def restart(self) -> Self:
        """Start again with the same data and ports, after shutting down a server that still runs."""
        if self._process is not None:
            self._process.stop()
        return self.start()

    @property
    def pid(self) -> int | None:
        """Process id of the server; None while it does not run."""
        return self._process.pid if self.running and self._process is not None else None

    @property
    def running(self) -> bool:
        """True while the server's process exists."""
        return self._process is not None and self._process.running

    @property
    def ending(self) -> str:
        """The exit status of a server that has ended, with the tail of its log."""
        return self._process.ending if self._process is not None else "it was never started"

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            # Includes Ctrl-C during the start: nothing may stay behind.
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def run_in_foreground(server: LocalServer, name: str, describe: Callable[[], str]) -> int:
    """Start a server, print its address and keep it running until Ctrl-C, SIGTERM or SIGHUP.

    Returns:
        The exit status: 1 if the server could not start or ended by itself, else 0.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    started = time.monotonic()
    try:
        with server:
            print(f"{name} is ready after {time.monotonic() - started:.1f} s: {describe()}", flush=True)
            while server.running:
                time.sleep(0.2)
            print(f"error: {name} ended by itself", flush=True)
    except KeyboardInterrupt:
        return 0
    except DeployError as error:
        print(f"error: {error}", flush=True)
    return 1
