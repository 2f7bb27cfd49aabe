"""What a handshake tells about a server that TLS fails with."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from glaim_stream.core.tls_probe import speaks_tls, tls_problem
from tests.certificates import Pair, signed

AUTHORITY = signed("authority")
Answer = Callable[[socket.socket], object]


@contextmanager
def server(answer: Answer) -> Iterator[int]:
    """A server that answers each connection; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def with_tls(folder: Path, pair: Pair, *, client: bool = False, closes: bool = False) -> Answer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair.write(folder))
    if client:
        context.verify_mode = ssl.CERT_REQUIRED

    def answer(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            if not closes:
                wrapped.recv(1)

    return answer


def reset(connection: socket.socket) -> None:
    connection.recv(1)  # the rest of what was sent is not read
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=AUTHORITY.certificate_pem.decode())
    return context


@pytest.mark.parametrize(
    ("pair", "client", "problem"),
    [
        (signed("good", AUTHORITY), False, None),
        (signed("good", AUTHORITY), True, "it requires a client certificate"),
        (signed("old", AUTHORITY, days=-1), False, "its certificate has expired"),
        (signed("elsewhere", AUTHORITY, hosts=["other"]), False, "its certificate is for other names"),
        (signed("own"), False, "its certificate is not trusted"),
    ],
)
def test_the_reason_is_named(tmp_path: Path, pair: Pair, client: bool, problem: str | None) -> None:
    begun_s = time.monotonic()
    with server(with_tls(tmp_path, pair, client=client)) as port:
        assert speaks_tls("127.0.0.1", port) or client
        found = tls_problem("127.0.0.1", port, trusting())
    assert found == problem if problem is None else problem in (found or "")
    assert time.monotonic() - begun_s < 2.5, "a server that says nothing after the handshake is not waited for"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda connection: connection.close(), "closes the connection"),
        (reset, "closes the connection"),
        (lambda c: c.send(b"hello\n"), "not use TLS"),
    ],
)
def test_a_server_without_tls_is_recognised(answer: Answer, problem: str) -> None:
    with server(answer) as port:
        assert not speaks_tls("127.0.0.1", port)
        assert problem in (tls_problem("127.0.0.1", port, trusting()) or "")


def test_a_silent_server_is_waited_for_as_long_as_was_said_and_an_absent_one_is_no_problem() -> None:
    release = threading.Event()
    with server(lambda connection: release.wait(30)) as port:
        begun_s = time.monotonic()
        assert not speaks_tls("127.0.0.1", port, patience_s=0.2)
        assert time.monotonic() - begun_s < 5
        release.set()
    assert tls_problem("127.0.0.1", port, trusting(), patience_s=0.2) is None
