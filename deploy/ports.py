"""TCP ports of this machine: find free ones, or say who is wanted where."""

from __future__ import annotations

import random
import socket

from deploy.errors import PortInUse

LOOPBACK = "127.0.0.1"

# Below Linux's ephemeral range (32768 and up): between our test bind and the server's own, no outgoing connection
# of the machine can be given the port.
_FIRST_PORT, _LAST_PORT = 20_000, 32_000
_given: set[int] = set()  # by this process: a server that asks for several ports must get different ones


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """True if a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Servers set this too: a port whose last connections linger in TIME_WAIT is free for them.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def choose_port(host: str = LOOPBACK) -> int:
    """A port that nobody listens on, at random so that parallel runs seldom meet."""
    for _ in range(200):
        port = random.randint(_FIRST_PORT, _LAST_PORT)
        if port not in _given and is_free(port, host):
            _given.add(port)
            return port
    raise PortInUse(f"no free port found between {_FIRST_PORT} and {_LAST_PORT} on {host}")


def claim_port(asked: int | None, purpose: str, option: str, host: str = LOOPBACK) -> int:
    """The asked port if it is free, a free one if none was asked.

    Raises:
        PortInUse: If the asked port is taken; names the purpose and the option that changes it.
    """
    if asked is None:
        return choose_port(host)
    if not is_free(asked, host):
        raise PortInUse(
            f"port {asked} on {host} is in use, {purpose} cannot listen there: "
            f"stop what uses it, choose another with {option}, or leave {option} out to get a free one"
        )
    return asked
