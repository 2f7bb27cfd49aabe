"""One server for several processes of a run: started once, stopped after its last user."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.shared_servers import SharedServers


class Counted:
    """A server that counts its starts and stops."""

    def __init__(self) -> None:
        self.starts = self.stops = 0

    @contextmanager
    def run(self) -> Iterator[str]:
        self.starts += 1
        yield f"address-{self.starts}"
        self.stops += 1


def test_the_second_process_uses_the_server_of_the_first(tmp_path: Path) -> None:
    server = Counted()
    owner, other = SharedServers(tmp_path), SharedServers(tmp_path)
    with owner.use("kafka", server.run) as first, other.use("kafka", server.run) as second:
        assert first == second == "address-1"
    other.stop()
    assert (server.starts, server.stops) == (1, 0), "only the owner stops it"
    owner.stop()
    assert (server.starts, server.stops) == (1, 1)


def test_the_owner_waits_for_the_last_user(tmp_path: Path) -> None:
    server = Counted()
    owner, other = SharedServers(tmp_path), SharedServers(tmp_path)
    with owner.use("kafka", server.run):
        pass
    with other.use("kafka", server.run):
        stopping = threading.Thread(target=owner.stop)
        stopping.start()
        stopping.join(0.3)
        assert stopping.is_alive()
        assert server.stops == 0
    stopping.join(10)
    assert server.stops == 1


def test_after_a_stop_the_next_user_starts_a_new_server(tmp_path: Path) -> None:
    server = Counted()
    first, second = SharedServers(tmp_path), SharedServers(tmp_path)
    with first.use("kafka", server.run):
        pass
    first.stop()
    with second.use("kafka", server.run) as address:
        assert address == "address-2"
    second.stop()
    assert server.stops == 2


def test_different_names_are_different_servers(tmp_path: Path) -> None:
    kafka, triton = Counted(), Counted()
    servers = SharedServers(tmp_path)
    with servers.use("kafka", kafka.run), servers.use("triton", triton.run):
        assert (kafka.starts, triton.starts) == (1, 1)
    servers.stop()
    assert (kafka.stops, triton.stops) == (1, 1)
