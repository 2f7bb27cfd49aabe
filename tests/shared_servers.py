"""Servers shared by the parallel processes of one test run."""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from deploy.cache import exclusive

_POLL_S = 0.1


class SharedServers:
    """Servers that start once per run, in the first test process that needs them.

    The process that starts a server writes its address to a file, and the other processes read it from there. Every
    process that uses a server holds a shared lock, so that the owner can wait for the last user before it stops the
    server. The kernel releases the locks of a process that dies.

    Args:
        folder: A directory that all processes of this run share with no other run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._owned: dict[str, ExitStack] = {}

    @contextmanager
    def use(self, name: str, start: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
        """Yield the address of the server `name`, which `start` starts if it is not running."""
        address_file = self._folder / f"{name}.address"
        with (self._folder / f"{name}.users").open("a") as users:
            with exclusive(self._folder / f"{name}.lock"):
                if not address_file.exists():
                    owned = ExitStack()
                    address_file.write_text(owned.enter_context(start()))
                    self._owned[name] = owned
                fcntl.flock(users, fcntl.LOCK_SH)
            yield address_file.read_text()

    def stop(self) -> None:
        """Stop the servers that this process started, each once no process uses it."""
        for name, owned in self._owned.items():
            while not self._stop_if_unused(name, owned):
                time.sleep(_POLL_S)
        self._owned.clear()

    def _stop_if_unused(self, name: str, owned: ExitStack) -> bool:
        # Hold the lock of `use`, so that no process starts to use a server that is being stopped.
        with exclusive(self._folder / f"{name}.lock"), (self._folder / f"{name}.users").open("a") as users:
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            (self._folder / f"{name}.address").unlink()
            owned.close()
            return True
