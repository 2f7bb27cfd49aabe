"""What SIGTERM does to a command that writes files or has started a process."""

from __future__ import annotations

import signal
import sys

from glaim_stream.commands.exit_codes import TERMINATED


def exit_at_sigterm(status: int = TERMINATED) -> None:
    """Let SIGTERM end the command as an error does, so that partial files and processes that it started are removed.

    The first process of a container must handle the signal: it does not end otherwise.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(status))
