"""Requests to a page over real HTTP, as a browser or an attacker sends them."""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return strict(self.body)


def strict(text: bytes | str) -> Any:
    """JSON as a browser reads it: NaN and Infinity, which Python's parser takes, are errors."""

    def refuse(name: str) -> Any:
        raise ValueError(f"expected JSON, found {name}")

    return json.loads(text, parse_constant=refuse)


def ask(port: int, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
    """Send one request; header names have _ for -."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read())


@contextmanager
def stream(port: int, path: str = "/api/stream", **headers: str) -> Iterator[Iterator[tuple[str, Any, str]]]:
    """Open a stream; yields (event, document, id), and ("", None, "") for a heartbeat, until the server ends it."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n{lines}\r\n".encode())
        file = connection.makefile("rb")
        status = file.readline().split()[1]
        assert status == b"200", status
        while file.readline().strip():
            pass
        yield _events(file)


def _events(file: Any) -> Iterator[tuple[str, Any, str]]:
    fields: dict[str, str] = {}
    for line in file:
        text = line.decode().rstrip("\n")
        if text == ": here":
            yield "", None, ""
        elif text:
            name, _, value = text.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield fields["event"], strict(fields["data"]), fields["id"]
            fields = {}
