"""TCP ports of this machine: choose a free one, or check that a requested one is free."""

from __future__ import annotations

import random
import socket

from deploy.errors import PortInUse

LOOPBACK = "127.0.0.1"

# Below Linux's ephemeral range (32768 and up), so that no outgoing connection can take the port between the test bind
# here and the server's own.
_FIRST_PORT, _LAST_PORT = 20_000, 32_000
_chance = random.SystemRandom()  # tests seed the module's generator, and would choose the same port in two processes
_given: set[int] = set()  # handed out by this process: a server that needs several ports must get different ones


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """True if a server can listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Servers set this too, so a port with connections in TIME_WAIT is free for them.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def choose_port(host: str = LOOPBACK) -> int:
    """A free port, chosen at random so that parallel runs rarely collide."""
    for _ in range(200):
        port = _chance.randint(_FIRST_PORT, _LAST_PORT)
        if port not in _given and is_free(port, host):
            _given.add(port)
            return port
    raise PortInUse(f"no free port found between {_FIRST_PORT} and {_LAST_PORT} on {host}")


def claim_port(requested: int | None, purpose: str, option: str, host: str = LOOPBACK) -> int:
    """The requested port if it is free, or any free port if `requested` is None.

    Raises:
        PortInUse: If the requested port is taken; names the purpose and the option that changes it.
    """
    if requested is None:
        return choose_port(host)
    if not is_free(requested, host):
        raise PortInUse(
            f"port {requested} on {host} is in use, {purpose} cannot listen there: stop the process that uses it, "
            f"choose another port with {option}, or omit {option} to use a free one"
        )
    return requested
