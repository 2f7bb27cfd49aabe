"""Restarts a server that exits, as the kubelet does with a container.

The python backend of Triton crashes now and then under concurrent load (triton-inference-server/server issues 8882,
7938, 7308). Clients repeat their calls until a deadline, so that a restart costs them seconds and no result.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from deploy.cache import Report
from deploy.errors import DeployError
from deploy.runner import LocalServer

_POLL_S = 0.2
_LONGEST_PAUSE_S = 30.0


@contextmanager
def kept_running(server: LocalServer, name: str, report: Report) -> Iterator[None]:
    """Restart `server` on its ports whenever it exits, until the context ends.

    Do not stop, kill or restart the server in the meantime, except by a signal to its process.

    Args:
        server: A running server.
        name: Name of the server in reports.
        report: Receives the cause of each end and the outcome of each start, in another thread.
    """
    done = threading.Event()

    def keep() -> None:
        pause_s = _POLL_S
        while not done.wait(pause_s):
            if server.running:
                pause_s = _POLL_S
                continue
            report(f"{name} ended by itself and starts again: {server.ending}")
            try:
                server.restart()
            except DeployError as error:
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                report(f"{name} did not start, next attempt in {pause_s:.1f} s: {error}")

    keeper = threading.Thread(target=keep, name=f"keeper of {name}", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        done.set()
        keeper.join()
