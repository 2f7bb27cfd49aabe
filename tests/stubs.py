"""Control of the backend processes of a real Triton."""

import os
import signal
from pathlib import Path

from deploy.triton import LocalTriton


def kill_stubs(triton: LocalTriton) -> None:
    """Kill the interpreters of the python backend, which Triton 24.10 never restarts."""
    stubs = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # the process has just ended
        if parent == triton.pid and b"triton_python_backend_stub" in command:
            stubs.append(int(entry.name))
    assert stubs, "expected a stub for each instance of the model"
    for stub in stubs:
        os.kill(stub, signal.SIGKILL)
